"""Derives a table's writer schemas from its CES messages: the columns in `cols`, the key in `pkkey`.

A message lists the columns that it sends: all of them, or only the changed ones and the key. So the columns
of all messages of a table are combined. They are kept apart only where messages contradict each other: in
two types of one column, or in two keys.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from changeledger.config.tables import TableConfig
from changeledger.dialects.ces.type_kinds import contradicts
from changeledger.dialects.messages.message_rows import Outcome
from changeledger.dialects.messages.problems import Problem, columns_alike
from changeledger.model.column_names import alike, folded, is_name
from changeledger.model.contract import Column, Contract
from changeledger.model.errors import ContractError
from changeledger.model.sql_type import SqlType
from changeledger.model.stated_key import keyed


class Variant(NamedTuple):
    """One way in which messages write a table; `cols` is the text of their array, as received.

    `key` has the names in `pkkey`; `first` is the position of the first of the messages, as comparable text.
    """

    first: str
    cols: str | None
    key: tuple[str, ...]


class WriterSchema(NamedTuple):
    """The columns of one table, and the variants that are read with them."""

    contract: Contract
    variants: Sequence[Variant]
    # Why the variants cannot be read with them; None if they can.
    fault: Outcome | None = None

    @property
    def missing(self) -> Outcome | None:
        """Why no record of it can be published; None if nothing is missing."""
        table = self.contract.table
        if self.fault is not None:
            return self.fault
        if not self.contract.columns:
            return Problem("no_columns", table).outcome
        return None if self.contract.key else Problem("no_key", table).outcome


class _Written(NamedTuple):
    name: str
    type: str
    place: int
    # Whether the lake has the type as it is written.
    is_known: bool = True
    # Whether the message states the place.
    is_placed: bool = False


def writer_schemas(
    table: TableConfig, variants: Iterable[Variant], known: Contract | None
) -> list[WriterSchema]:
    """Returns the writer schemas of one table, oldest first. One without a key cannot be published.

    What the feed states takes precedence over what the messages say. `known`, the table's contract, stands in
    where they say nothing.
    """
    in_order = sorted(variants, key=lambda v: v.first)
    # If the feed states columns, the contract does not have the messages' own names for them.
    before = [] if known is None or table.stated else [[_of_contract(c) for c in known.columns]]
    twins = _twins([*before, *(_entries(v.cols) for v in in_order)])
    stated = {folded(c.name): _Written(c.name, c.type, at) for at, c in enumerate(table.stated)}
    faults = {v: why for v in in_order if (why := _fault(v, table.table, twins, stated)) is not None}
    result = [WriterSchema(Contract(table=table.table, columns=()), [v], why) for v, why in faults.items()]
    in_order = [v for v in in_order if v not in faults]
    columns = {v: {name: c for name, c in _columns(v.cols).items() if name not in stated} for v in in_order}
    apart = _contradicting(columns.values())
    # Each column as it is written last.
    everywhere = {name: c for said in columns.values() for name, c in said.items() if name not in apart}
    for group in _alike(in_order, columns, apart):
        others = everywhere | {name: c for v in group for name, c in columns[v].items()}
        group_columns = _behind(stated, others)
        if not group_columns and known is not None:
            result.append(WriterSchema(keyed(known, table.key), group))
            continue
        of_group = next((v.key for v in group if v.key), ()) or _first_key(in_order, group_columns.keys())
        key = table.key or of_group or tuple(c.name for c in (known.key if known else ()))
        result.append(WriterSchema(_contract(table.table, group_columns.values(), key), group))
    return result


def _behind(stated: Mapping[str, _Written], others: Mapping[str, _Written]) -> Mapping[str, _Written]:
    """Returns the columns that the feed states, followed by those that only messages have."""
    if not stated:
        return others
    in_order = sorted(others.items(), key=lambda other: (other[1].place, other[1].name))
    placed = {name: column._replace(place=at) for at, (name, column) in enumerate(in_order, len(stated))}
    return {**stated, **placed}


def _fault(
    variant: Variant, table: str, twins: Sequence[str], stated: Mapping[str, _Written]
) -> Outcome | None:
    """Returns why messages cannot be read: they write twins, or contradict a type that the feed states."""
    said = _columns(variant.cols)
    if not said.keys().isdisjoint(map(folded, twins)):
        return columns_alike(table, twins).outcome
    wrong = [
        f"{column.name} {column.type}: the message says {written.type}"
        for name, column in stated.items()
        if (written := said.get(name)) is not None
        and written.is_known
        and contradicts(SqlType.parse(column.type), SqlType.parse(written.type))
    ]
    if not wrong:
        return None
    what = f"{'; '.join(wrong)}. State the column's type as the source has it"
    return Problem("schema_contradicts", what).outcome


def _alike(
    variants: Iterable[Variant], columns: Mapping[Variant, Mapping[str, _Written]], apart: Collection[str]
) -> Iterable[list[Variant]]:
    """Groups the variants that agree on the key, and on the contradictory columns (`apart`)."""
    keys = {tuple(folded(name) for name in v.key) for v in columns if v.key}
    groups: dict[tuple[object, ...], list[Variant]] = {}
    for variant in variants:
        said = columns[variant]
        types = tuple((n, said[n].type) for n in sorted(apart & said.keys()))
        key = tuple(map(folded, variant.key)) if len(keys) > 1 else ()
        groups.setdefault((types, key), []).append(variant)
    return groups.values()


def _first_key(variants: Iterable[Variant], columns: Collection[str]) -> tuple[str, ...]:
    """Returns the key that messages without one borrow from others. All its columns must be in `columns`."""
    return next((v.key for v in variants if v.key and all(folded(n) in columns for n in v.key)), ())


def _columns(cols: str | bytes | None) -> dict[str, _Written]:
    """Returns the columns by case-folded name, as SQL Server compares names."""
    return {folded(column.name): column for column in _entries(cols)}


def _entries(cols: str | bytes | None) -> list[_Written]:
    """Returns the columns in their order; none if `cols` is malformed."""
    try:
        entries = json.loads(cols or "[]")
    except (ValueError, RecursionError):
        return []
    columns: list[_Written] = []
    for entry in entries if isinstance(entries, list) else []:
        members = {str(n).lower(): v for n, v in entry.items()} if isinstance(entry, dict) else {}
        name, kind = members.get("name"), members.get("type")
        if not isinstance(name, str) or not is_name(name):
            return []
        known_type, place = _type(kind), _index(members.get("index"))
        columns.append(
            _Written(
                name,
                known_type or "nvarchar(max)",
                len(columns) if place is None else place,
                known_type is not None,
                place is not None,
            )
        )
    return columns


def _of_contract(column: Column) -> _Written:
    """Returns a column as earlier windows have read it."""
    return _Written(column.name, column.type, column.ordinal - 1, is_placed=True)


def _twins(messages: Iterable[Sequence[_Written]]) -> list[str]:
    """Returns the names of columns that the lake cannot distinguish, as messages write them.

    A message may have only one of them. So two such names are two columns if one message has both, or if they
    never have the same place in the table.
    """
    places: dict[str, dict[str, set[int]]] = {}
    beside: set[str] = set()
    for columns in messages:
        beside.update(alike([*dict.fromkeys(column.name for column in columns)]))
        for column in columns:
            of_name = places.setdefault(folded(column.name), {}).setdefault(column.name, set())
            of_name.update({column.place} if column.is_placed else ())
    return [
        name
        for names in places.values()
        for name, own in names.items()
        if name in beside or any(own and others and own.isdisjoint(others) for others in names.values())
    ]


def names_in(cols: str | bytes | None) -> frozenset[str]:
    """Returns the case-folded names in `cols`; none if it is malformed."""
    return frozenset(_columns(cols))


def _type(written: object) -> str | None:
    """Returns the type as SQL Server writes it; None if the lake has no counterpart and keeps its text."""
    text = "".join(str(written).lower().split())
    try:
        SqlType.parse(text)
    except ContractError:
        return None
    return text


def _index(written: object) -> int | None:
    try:
        return max(int(str(written)), 0)
    except ValueError:
        return None


def _contradicting(columns: Iterable[Mapping[str, _Written]]) -> set[str]:
    types: dict[str, set[str]] = {}
    for said in columns:
        for name, column in said.items():
            types.setdefault(name, set()).add(column.type)
    return {name for name, of_name in types.items() if len(of_name) > 1}


def _contract(table: str, columns: Iterable[_Written], key: Sequence[str]) -> Contract:
    """Builds the contract, with ordinals from `index`: the 0-based place in the table, which may have gaps.

    After a column was dropped, two columns may have had the same index. Then ordinals count the columns in
    their order.
    """
    in_order = sorted(columns, key=lambda c: (c.place, c.name))
    places = [c.place for c in in_order]
    distinct = len(set(places)) == len(places)
    in_key = {folded(name): at for at, name in enumerate(key, 1)}
    complete = in_key.keys() <= {folded(c.name) for c in in_order}
    return Contract(
        table=table,
        columns=tuple(
            Column(
                name=c.name,
                type=c.type,
                ordinal=(c.place if distinct else at) + 1,
                nullable=folded(c.name) not in in_key,
                # Half a key would identify the wrong rows.
                key_position=in_key.get(folded(c.name), 0) if complete else 0,
            )
            for at, c in enumerate(in_order)
        ),
    )
