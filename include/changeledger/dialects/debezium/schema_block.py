"""Reads what messages say about their table: its name in `source`, columns and key in schema blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from changeledger.config.feed import Feed
from changeledger.config.tables import TableConfig
from changeledger.dialects.debezium.field_types import BROKEN, column_type, fields_of
from changeledger.dialects.debezium.fields import Fields, row_fields
from changeledger.dialects.debezium.plain import beginning, json_object, names_in, payload_of, places
from changeledger.dialects.debezium.unions import row_of
from changeledger.dialects.messages.samples import Sample
from changeledger.model import growth
from changeledger.model.column_names import folded, is_name, unlike
from changeledger.model.contract import Column, Contract
from changeledger.model.errors import ContractError


class TableFacts(NamedTuple):
    """What the samples of one topic say about one table.

    `columns`: stated by a schema block or the feed's YAML. `names`: the names of the images' members.
    """

    columns: Contract | None = None
    names: tuple[str, ...] = ()

    def read_by(self, contract: Contract | None) -> Contract | None:
        """Returns the writer schema: the columns, completed from the table's `contract`.

        The contract supplies the key if only it has one, or all columns. Names are spelled as in the
        messages; names that differ only in case are the same. Returns None if the result equals the contract.
        """
        known = _keyed_as(self.columns, contract) if self.columns and contract else self.columns or contract
        if known is None:
            return None
        spelt = {name.lower(): name for name in self.names}
        columns = (
            c if c.name in self.names else c.model_copy(update={"name": spelt.get(c.name.lower(), c.name)})
            for c in known.columns
        )
        writer_schema = known.model_copy(update={"columns": tuple(columns)})
        is_same = contract is not None and writer_schema.columns == contract.columns
        return None if is_same else writer_schema


class TableMessage(NamedTuple):
    """A parsed sample of one of the feed's tables. `name`: the table's name in the message."""

    sample: Sample
    name: str
    config: TableConfig
    message: Mapping[str, Any]
    payload: Mapping[str, Any]


class Described(NamedTuple):
    """A change event: its table's name in messages, the schema block of its columns, and its payload."""

    table: str
    block: object
    payload: Mapping[str, Any]


def of_tables(samples: Sequence[Sample], feed: Feed) -> list[TableMessage]:
    """Parses samples and returns those that are change events of the feed's tables."""
    messages = []
    for sample in samples:
        message = json_object(sample.value)
        payload = payload_of(message)
        name = source_name(payload, sample.topic)
        config = None if name is None else feed.table(name)
        if name is not None and config is not None:
            messages.append(TableMessage(sample, name, config, message, payload))
    return messages


def by_table(messages: Iterable[TableMessage]) -> dict[tuple[str, str], list[Sample]]:
    """Groups the samples by topic and by the table's name in the messages."""
    tables: dict[tuple[str, str], list[Sample]] = {}
    for message in messages:
        tables.setdefault((message.sample.topic, message.name), []).append(message.sample)
    return tables


def described_in_json(messages: Iterable[TableMessage]) -> list[Described]:
    return [Described(m.name, m.message.get("schema"), m.payload) for m in messages]


def table_facts(messages: Iterable[TableMessage]) -> dict[str, dict[str, TableFacts]]:
    """Maps each topic to its tables, by their names in messages, with what the samples say about them.

    A later sample of a table extends the columns of an earlier one.
    """
    topics: dict[str, dict[str, TableFacts]] = {}
    # Hundreds of samples can have the same block, which is read once.
    read: dict[tuple[str, bytes, tuple[str, ...]], Contract | None] = {}
    latest: dict[tuple[str, str], Contract | None] = {}
    for sample, name, config, message, payload in messages:
        tables, key = topics.setdefault(sample.topic, {}), json_object(sample.key)
        said = name, beginning(sample.value or b""), names_in(key)
        newer = read[said] if said[1] and said in read else contract_of(config, message, key)
        read[said] = newer
        known = tables.get(name, TableFacts())
        is_as_before = newer is not None and latest.get((sample.topic, name)) is newer
        columns = known.columns if is_as_before else _together(known.columns, newer)
        latest[sample.topic, name] = newer
        tables[name] = TableFacts(columns, _members(payload, known.names))
    return topics


def source_name(payload: Mapping[str, Any], topic: str) -> str | None:
    """Returns the table's name in a change event, `schema.table`, or None for another message."""
    source = payload.get("source")
    if not isinstance(source, dict) or "op" not in payload:
        return None
    return _table_name(source, topic)


def named_columns(samples: Sequence[Sample], table: str) -> Contract | None:
    """Returns columns of messages without schema blocks: the members of images and keys, all as text."""
    names: tuple[str, ...] = ()
    key: dict[str, None] = {}
    for sample in samples:
        names = _members(payload_of(json_object(sample.value)), names)
        key |= dict.fromkeys(names_in(json_object(sample.key)))
    columns = {folded(name): name for name in unlike([name for name in names if is_name(name)])}
    if not columns:
        return None
    place = places(tuple(key), tuple(columns.values()))
    return Contract(
        table=table,
        columns=tuple(
            Column(
                name=name,
                type="nvarchar(max)",
                ordinal=at,
                key_position=place.get(name.lower(), 0),
                length_stated=False,
            )
            for at, name in enumerate(columns.values(), 1)
        ),
    )


def _members(payload: Mapping[str, Any], known: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Returns the names of the images' members, after those already `known`."""
    names = dict.fromkeys(known)
    for side in ("before", "after"):
        image = row_of(payload.get(side)) or payload.get(side)
        names |= dict.fromkeys(image if isinstance(image, dict) else ())
    return tuple(names)


def _together(known: Contract | None, newer: Contract | None) -> Contract | None:
    if known is None or newer is None:
        return newer or known
    known, newer = _keyed_as(known, newer), _keyed_as(newer, known)
    if known.columns == newer.columns:
        return newer
    try:
        return known.evolved_to(newer)
    except ContractError:
        # Normalize reports it, when it compares the columns with the published ones.
        return _beside(newer, known)


def _beside(newer: Contract, known: Contract) -> Contract:
    """Returns the newer columns, followed by the dropped ones, which only older messages have.

    A column of another kind than before does not affect the others, which have the wider of both types.
    """
    earlier = {column.name.lower(): column for column in known.columns}
    columns = [_grown(newer.table, earlier.pop(c.name.lower(), None), c) for c in newer.columns]
    dropped = (c.model_copy(update={"nullable": True, "key_position": 0}) for c in earlier.values())
    both = newer.model_copy(update={"columns": (*columns, *dropped)})
    return newer if both.names_alike else both


def _grown(table: str, old: Column | None, new: Column) -> Column:
    """Returns the newer column in the wider of both types, or unchanged if it is of another kind."""
    if old is None:
        return new
    try:
        return growth.grown(table, old, new).model_copy(update={"name": new.name})
    except ContractError:
        return new


def _keyed_as(columns_of: Contract, other: Contract) -> Contract:
    """Returns the columns with the key of `other` if they have none.

    A message without a key says nothing about its table's key.
    """
    if columns_of.key:
        return columns_of
    return _keyed(columns_of, [c.name for c in other.key])


def _keyed(columns_of: Contract, names: Sequence[str]) -> Contract:
    place = places(names, columns_of.names)
    columns = (
        c.model_copy(update={"key_position": place.get(c.name.lower(), 0)}) for c in columns_of.columns
    )
    return columns_of.model_copy(update={"columns": tuple(columns)})


def _table_name(source: Mapping[str, Any], topic: str) -> str:
    """Returns `schema.table`. Debezium 0.x has it only in the topic's name, `<prefix>.<schema>.<table>`."""
    schema, table = source.get("schema"), source.get("table")
    *_, topic_schema, topic_table = ["", "", *topic.split(".")]
    if table is None:
        return f"{topic_schema}.{topic_table}"
    # Neither a number nor an object is a name.
    names = (topic_schema if schema is None else schema, table)
    return ".".join(name if isinstance(name, str) else "" for name in names)


def contract_of(config: TableConfig, message: Mapping[str, Any], key: Mapping[str, Any]) -> Contract | None:
    """Returns a table's columns and key: stated by the feed, else from a message's block and its key."""
    columns = _with_stated(_block_columns(message), config)
    if not columns:
        return None
    return _keyed(Contract(table=config.table, columns=tuple(columns)), config.key or names_in(key))


def _with_stated(of_block: Sequence[Column], config: TableConfig) -> list[Column]:
    """Returns the columns that the feed states, followed by those that only the block has."""
    stated = [Column(name=c.name, type=c.type, nullable=c.nullable, ordinal=1) for c in config.stated]
    names = {column.name.lower() for column in stated}
    columns = [*stated, *(column for column in of_block if column.name.lower() not in names)]
    return [column.model_copy(update={"ordinal": at}) for at, column in enumerate(columns, 1)]


def _block_columns(message: Mapping[str, Any]) -> list[Column]:
    """Returns the columns in the schema block; none if it is broken.

    Of several columns whose names Spark cannot distinguish, only the first is returned; messages that have
    both are refused later.
    """
    try:
        columns = [
            Column(
                name=f["field"],
                type=said.sql_type,
                nullable=bool(f.get("optional", True)),
                ordinal=at,
                length_stated=said.length_stated,
            )
            for at, f in enumerate(row_fields(message.get("schema")), 1)
            for said in [column_type(f)]
        ]
    except BROKEN:
        return []
    by_name = {column.name: column for column in reversed(columns)}
    if not all(map(is_name, by_name)):
        return []
    return [by_name[name] for name in unlike([column.name for column in columns])]


def written_fields(block: object, columns: Sequence[str]) -> Fields | None:
    """Returns the columns' fields in a schema block, or None if it is broken or has none of them."""
    try:
        return fields_of(block, columns)
    except BROKEN:
        return None
