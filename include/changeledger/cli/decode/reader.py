"""Reads raw records with their dialect's kernels and returns what became of each."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from changeledger.cli.decode import change_tables
from changeledger.cli.decode.records import Message, Row, Unreadable
from changeledger.cli.decode.results import WINDOW, Numbers, Result, of_input
from changeledger.config.connection import Connection, connection_variable
from changeledger.config.feed import Feed
from changeledger.config.sources import SOURCE_MODELS
from changeledger.config.tables import ColumnConfig, TableConfig
from changeledger.dialects import kernel as kernels
from changeledger.dialects.interface import MessageDialect, TableDialect
from changeledger.dialects.messages import frames
from changeledger.dialects.messages.samples import Sample
from changeledger.dialects.registry import DIALECTS
from changeledger.dialects.tables import instants
from changeledger.kernels.arrow import MESSAGE
from changeledger.kernels.in_memory import InMemory
from changeledger.kernels.rows import together
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.stages.normalization import reading
from changeledger.stages.normalization.mask_reading import resolved_alone

Schemas = Callable[[Iterable[str]], Mapping[str, str]]
Warn = Callable[[str], None]
# What was read, and a function that returns the number of a record by its position.
_Read = tuple[list[reading.Input], Numbers]

_NO_RECORD = "not_a_record"
# As many digits as the year 9999 needs.
_MILLIS = re.compile(r"[0-9]{1,15}\Z")


class AnyTable(Feed):
    """The feed of records that come without a feed file. It has every table that they name."""

    tables: tuple[TableConfig, ...] = ()

    def table(self, name: str) -> TableConfig | None:
        schema, _, table = name.partition(".")
        # Not validated: the name may be anything that SQL Server accepts, since it comes from no feed file.
        unlisted = TableConfig.model_construct(table=name) if schema and table else None
        return super().table(name) or unlisted


def is_on_kafka(dialect: str) -> bool:
    return isinstance(DIALECTS[dialect], MessageDialect)


def feed_of(dialect: str, records: Sequence[Message | Row | Unreadable]) -> Feed:
    """Returns a feed with all topics and tables of the records, and the default of every setting."""
    topics = sorted({record.topic for record in records if isinstance(record, Message)})
    source = {"topics": topics or ["none"]} if is_on_kafka(dialect) else {}
    return AnyTable.model_validate(
        {
            "feed": "decode", "dialect": dialect, "database": "decode", "connection": "none",
            "source": SOURCE_MODELS[dialect].model_validate(source), "tables": (),
        }
    )  # fmt: skip


def schemas_of(feed: Feed) -> Schemas:
    """Returns a lookup in the registry that the feed's connection names.

    Without an available connection or a registry it finds no schemas.
    """
    if connection_variable(feed.connection) not in os.environ:
        return lambda _: {}
    # Imported here because it takes seconds, with Kafka's client, and `decode` rarely has a registry.
    from changeledger.kafka.schema_registry import SchemaRegistry  # noqa: PLC0415

    registry = SchemaRegistry.of(feed.connection, Connection.named(feed.connection))

    return lambda ids: {} if registry is None else dict(registry.schemas(ids))


def results(
    feed: Feed,
    records: Sequence[Message | Row | Unreadable],
    contracts: Mapping[str, Contract],
    schemas: Schemas = lambda _: {},
    warn: Warn = lambda _: None,
) -> Iterator[Result]:
    """Returns what became of the records, in their order. `record` is a record's number, from 1.

    `schemas` returns the Avro schemas of ids, as far as they are known. `warn` gets warnings about records
    that can be read.
    A change made of several records appears once, in the place of the first, with all of them in `records`.
    """
    dialect = DIALECTS[feed.dialect]
    outcomes: list[Result] = [
        {"record": n, "disposition": change.QUARANTINED, "reason": _NO_RECORD, "detail": record.why}
        for n, record in enumerate(records, 1)
        if isinstance(record, Unreadable)
    ]
    if len(outcomes) < len(records):
        if isinstance(dialect, MessageDialect):
            messages = [(n, m) for n, m in enumerate(records, 1) if isinstance(m, Message)]
            inputs, number = _messages(dialect, stating(feed, contracts), messages, schemas, warn)
        else:
            rows = [(n, r) for n, r in enumerate(records, 1) if isinstance(r, Row)]
            (inputs, number), others = _rows(dialect, feed, rows, contracts)
            outcomes += others
        for table_input in inputs:
            outcomes += of_input(feed, table_input, number)
    return iter(sorted(outcomes, key=lambda result: result["record"]))


def stating(feed: Feed, contracts: Mapping[str, Contract]) -> Feed:
    """Returns the feed with the tables that the contracts state in place of its own settings for them."""
    stated = [
        TableConfig.model_construct(
            table=contract.table,
            key=tuple(c.name for c in contract.key),
            columns=tuple(
                ColumnConfig(name=c.name, type=c.type, nullable=c.nullable, computed=c.computed)
                for c in sorted(contract.columns, key=lambda column: column.ordinal)
            ),
        )
        for contract in contracts.values()
    ]
    names = {config.table.lower() for config in stated}
    others = [config for config in feed.tables if config.table.lower() not in names]
    return feed.model_copy(update={"tables": (*stated, *others)})


def _messages(
    dialect: MessageDialect,
    feed: Feed,
    messages: Sequence[tuple[int, Message]],
    schemas: Schemas,
    warn: Warn,
) -> _Read:
    places = [(m.topic, m.partition, m.offset) for _, m in messages]
    # Kafka has no two records at one position, and none without: use the order in the input as offset.
    if len(set(places)) < len(places) or any(m.offset is None for _, m in messages):
        messages = [(n, m._replace(offset=n)) for n, m in messages]
    numbers = {(m.topic, m.partition, m.offset): n for n, m in messages}
    inputs = of_messages(dialect, feed, _batch([m for _, m in messages]), schemas, warn)
    return inputs, lambda at: numbers[at["source"], at["partition"], at["offset"]]


def of_messages(
    dialect: MessageDialect, feed: Feed, messages: pa.RecordBatch, schemas: Schemas, warn: Warn
) -> list[reading.Input]:
    """Decodes messages (`arrow.MESSAGE`) by table. The last input has the messages of no table."""
    named = messages.select(["key", "value", "headers"]).to_pylist()
    ids = frames.schema_ids((row["key"], row["value"], row["headers"] or ()) for row in named)
    known = kernels.EarlierWindows({}, {}, schemas(ids))
    discovery = reading.discovered(dialect.kernel, InMemory.of(messages), feed, known, WINDOW)
    for warning in discovery.warnings:
        warn(warning)
    typed = {of_table.table for of_table in discovery.records if of_table.writer_schema is not None}
    records = [
        of_table if of_table.table in typed else _with_named_columns(dialect, of_table)
        for of_table in discovery.records
    ]
    inputs = reading.inputs(records, reading.TableKnowledge({}, resolved_alone))
    return [*inputs, reading.Input(None, None, together(discovery.others))]


def _batch(messages: Sequence[Message]) -> pa.RecordBatch:
    """Returns the messages as `arrow.MESSAGE`."""
    columns = dict(zip(Message._fields, zip(*messages, strict=True), strict=True))
    columns["headers"] = tuple([{"key": k, "value": v} for k, v in message.headers] for message in messages)
    return pa.RecordBatch.from_arrays(
        [
            _times(columns[field.name])
            if field.name == "timestamp"
            else pa.array(columns[field.name], field.type)
            for field in MESSAGE
        ],
        schema=MESSAGE,
    )


def _times(timestamps: Sequence[str | None]) -> pa.TimestampArray:
    parsed = [None if timestamp is None else _micros(timestamp.strip()) for timestamp in timestamps]
    micros = np.array([moment or 0 for moment in parsed], np.int64)
    return instants.known(micros, np.array([moment is not None for moment in parsed], np.bool_))


def _micros(timestamp: str) -> int | None:
    """Parses a time, as text or in milliseconds since 1970 as in Kafka, to microseconds; None if neither."""
    micros = instants.of_text(timestamp, in_zone=True)
    return int(timestamp) * 1000 if micros is None and _MILLIS.match(timestamp) else micros


def _with_named_columns(dialect: MessageDialect, records: reading.Records) -> reading.Records:
    """Returns records whose columns have no types with a writer schema of the names in their messages."""
    if dialect.named_columns is None:
        return records
    raws = [raw.collected().select(Sample._fields) for raw in records.raw]
    samples = [Sample(**row) for raw in raws for row in raw.to_pylist()]
    return replace(records, writer_schema=dialect.named_columns(samples, records.table))


def _rows(
    dialect: TableDialect,
    feed: Feed,
    rows: Sequence[tuple[int, Row]],
    contracts: Mapping[str, Contract],
) -> tuple[_Read, list[Result]]:
    cells = dialect.completed([row.cells for _, row in rows], feed)
    rows = [(n, row._replace(cells=of_row)) for (n, row), of_row in zip(rows, cells, strict=True)]
    tables, others = change_tables.change_tables(dialect, feed, rows, contracts)
    return (change_tables.inputs(dialect, feed, tables), lambda at: at["offset"]), others
