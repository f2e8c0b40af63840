"""What CES messages tell of a table: its columns in `cols`, its key in `pkkey`.

A message tells the columns that it sends: all of them, or only the changed ones and the key. So what the
messages of a table say is put together, and apart only where they contradict each other: two types of one
column, or two keys.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from changeledger.config import TableConfig
from changeledger.contract import Column, Contract, SqlType
from changeledger.errors import ContractError
from changeledger.names import folded


class Variant(NamedTuple):
    """One way in which messages tell a table; `cols` is the text of their array, as received.

    `mark` is the same in all of them; `key` has the names in `pkkey`; `first` is the position of the first
    of them, as comparable text.
    """

    mark: int

    cols: str | None
    key: tuple[str, ...]
    first: str


class Shape(NamedTuple):
    """The columns of one table, and the variants that are read by them."""

    contract: Contract
    variants: Sequence[Variant]


class _Told(NamedTuple):
    name: str
    type: str
    place: int


def shapes(table: TableConfig, variants: Iterable[Variant], known: Contract | None) -> list[Shape]:
    """The shapes of one table, oldest first. A shape without a key cannot be published.

    What the feed states comes first, then what the messages tell; `known`, the table's contract, stands
    in where they tell nothing.
    """
    in_order = sorted(variants, key=lambda v: v.first)
    if table.stated:
        stated = [_Told(c.name, c.type, at) for at, c in enumerate(table.stated)]
        key = table.key or _first_key(in_order, {folded(c.name) for c in stated}) or _key_names(known)
        return [Shape(_contract(table.table, stated, key), in_order)]
    columns = {v: _columns(v.cols) for v in in_order}
    apart = _contradicting(columns.values())
    keys = {tuple(folded(name) for name in v.key) for v in in_order if v.key}
    found: dict[tuple[object, ...], list[Variant]] = {}
    for variant in in_order:
        said = columns[variant]
        mark = tuple((n, said[n].type) for n in sorted(apart & said.keys()))
        found.setdefault((mark, tuple(map(folded, variant.key)) if len(keys) > 1 else ()), []).append(variant)
    everywhere = _together(columns.values(), leave_out=apart)
    result = []
    for group in found.values():
        own = everywhere | _together((columns[v] for v in group), leave_out=set())
        if not own and known is not None:
            result.append(Shape(known, group))
            continue
        told_key = next((v.key for v in group if v.key), ()) or _first_key(in_order, own.keys())
        key = table.key or told_key or _key_names(known)
        result.append(Shape(_contract(table.table, own.values(), key), group))
    return result


def _first_key(variants: Iterable[Variant], columns: Collection[str]) -> tuple[str, ...]:
    """What a message that tells no key borrows from others: not a key of columns that nobody tells."""
    return next((v.key for v in variants if v.key and all(folded(n) in columns for n in v.key)), ())


def _columns(cols: str | None) -> dict[str, _Told]:
    """By name without its case, as SQL Server compares them; empty where `cols` is not as it should be."""
    try:
        entries = json.loads(cols or "[]")
    except (ValueError, RecursionError):
        return {}
    found: dict[str, _Told] = {}
    for entry in entries if isinstance(entries, list) else []:
        members = {str(n).lower(): v for n, v in entry.items()} if isinstance(entry, dict) else {}
        name, kind = members.get("name"), members.get("type")
        if not isinstance(name, str) or not _is_a_name(name):
            return {}
        there = found.get(folded(name))
        # Two names in one message are two columns, to be refused together.
        key = folded(name) if there is None or there.name == name else name
        found[key] = _Told(name, _type(kind), _index(members.get("index"), len(found)))
    return found


def _is_a_name(name: str) -> bool:
    """Could SQL Server have it? Its names have up to 128 characters; half a surrogate pair is none."""
    return 0 < len(name) <= 128 and not any("\ud800" <= c <= "\udfff" for c in name)


def _type(told: object) -> str:
    """The type as SQL Server writes it; a type that has no counterpart in the lake keeps its text."""
    text = "".join(str(told).lower().split())
    try:
        SqlType.parse(text)
    except ContractError:
        return "nvarchar(max)"
    return text


def _index(told: object, otherwise: int) -> int:
    try:
        return max(int(str(told)), 0)
    except ValueError:
        return otherwise


def _contradicting(columns: Iterable[Mapping[str, _Told]]) -> set[str]:
    types: dict[str, set[str]] = {}
    for said in columns:
        for name, column in said.items():
            types.setdefault(name, set()).add(column.type)
    return {name for name, told in types.items() if len(told) > 1}


def _together(columns: Iterable[Mapping[str, _Told]], leave_out: set[str]) -> dict[str, _Told]:
    """What is said last of each column."""
    found: dict[str, _Told] = {}
    for said in columns:
        found |= {name: column for name, column in said.items() if name not in leave_out}
    return found


def _key_names(known: Contract | None) -> tuple[str, ...]:
    return tuple(c.name for c in known.key) if known else ()


def _contract(table: str, columns: Iterable[_Told], key: Sequence[str]) -> Contract:
    """`index` is the place in the table, 0-based, with gaps where columns are left out.

    After a column was dropped, two may have had the same: then they are counted anew.
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
