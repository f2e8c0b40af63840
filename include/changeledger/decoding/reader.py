"""Reads raw records with their dialect's decoder and tells what became of each."""

from __future__ import annotations

import math
import os
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

from pyspark.sql import Row as SparkRow
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from changeledger import change
from changeledger.config import (
    SOURCE_MODELS,
    ColumnConfig,
    Connection,
    Feed,
    TableConfig,
    connection_variable,
)
from changeledger.contract import Contract
from changeledger.decoding import change_tables
from changeledger.decoding.records import Message, Row, Unreadable
from changeledger.dialects.avro_frames import schema_ids
from changeledger.dialects.base import WHOLE, Dialect, Known, MessageDialect, TableDialect, Told, ends
from changeledger.dialects.registry import DIALECTS
from changeledger.plans import Keep, at_hand
from changeledger.reconcile import duplicates
from changeledger.stages import mask_orders, reading
from changeledger.storage.schema_registry import SchemaRegistry

Result = dict[str, Any]
Schemas = Callable[[Iterable[str]], Mapping[str, str]]
# What was read, and the number of each record by the place that the decoded rows have of it.
_Read = tuple[list[reading.Input], Mapping[Any, int]]

_MESSAGE = (
    "topic string, partition int, offset bigint, timestamp string, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>"
)
_NO_RECORD = "not_a_record"
# The end of the year 9999.
_LAST_MILLIS = 253_402_300_799_999
# What a result says of a change, in this order.
_SAID = (
    "key", "previous_key", "before", "after", "before_gaps", "after_gaps", "changed", "mask",
    "commit_lsn", "change_lsn", "ordinal", "sort_key", "committed_at", "transaction_id", "flags",
)  # fmt: skip
_COLUMNS = ("record", "disposition", "reason", "detail", "part", "pair_key", "paired_record")


class AnyTable(Feed):
    """The feed of records whose feed file nobody gave: every table that they tell is one of its own."""

    tables: tuple[TableConfig, ...] = ()

    def table(self, name: str) -> TableConfig | None:
        schema, _, table = name.partition(".")
        # Whatever SQL Server takes for a name: no file names it, so no pattern binds it.
        own = TableConfig.model_construct(table=name) if schema and table else None
        return super().table(name) or own


def is_on_kafka(dialect: str) -> bool:
    return isinstance(DIALECTS[dialect], MessageDialect)


def feed_of(dialect: str, records: Sequence[Message | Row | Unreadable]) -> Feed:
    """The feed that has all topics and tables of the records, with every setting as it is by default."""
    topics = sorted({record.topic for record in records if isinstance(record, Message)})
    source = {"topics": topics or ["none"]} if is_on_kafka(dialect) else {}
    return AnyTable.model_validate(
        {
            "feed": "decode", "dialect": dialect, "database": "decode", "connection": "none",
            "source": SOURCE_MODELS[dialect].model_validate(source), "tables": (),
        }
    )  # fmt: skip


def schemas_of(feed: Feed) -> Schemas:
    """The registry that the feed's connection names, where that connection is at hand; else no schemas."""
    if connection_variable(feed.connection) not in os.environ:
        return lambda _: {}
    registry = SchemaRegistry.of(feed.connection, Connection.named(feed.connection))

    def known(ids: Iterable[str]) -> Mapping[str, str]:
        found = {one: registry.schema(int(one)) for one in ids} if registry else {}
        return {one: schema for one, schema in found.items() if schema is not None}

    return known


def results(
    spark: SparkSession,
    feed: Feed,
    records: Sequence[Message | Row | Unreadable],
    contracts: Mapping[str, Contract],
    schemas: Schemas = lambda _: {},
) -> Iterator[Result]:
    """What became of the records, in their order; `record` is a record's number, from 1.

    `schemas` gives the Avro schemas of ids, as far as they are known.
    A change that several records tell comes once, in the place of the first, with all of them in `records`.
    """
    dialect = DIALECTS[feed.dialect]
    found: list[Result] = [
        {"record": n, "disposition": change.QUARANTINED, "reason": _NO_RECORD, "detail": record.why}
        for n, record in enumerate(records, 1)
        if isinstance(record, Unreadable)
    ]
    if len(found) < len(records):
        if isinstance(dialect, MessageDialect):
            messages = [(n, m) for n, m in enumerate(records, 1) if isinstance(m, Message)]
            inputs, number = _messages(spark, dialect, stating(feed, contracts), messages, schemas)
        else:
            rows = [(n, r) for n, r in enumerate(records, 1) if isinstance(r, Row)]
            (inputs, number), unlisted = _rows(spark, dialect, feed, rows, contracts)
            found += unlisted
        with at_hand() as keep:
            for one in inputs:
                found += _of_input(dialect, feed, one, number, keep)
    return iter(sorted(found, key=lambda result: result["record"]))


def stating(feed: Feed, contracts: Mapping[str, Contract]) -> Feed:
    """The feed with what the contracts state of its tables, in place of its own words."""
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
    spark: SparkSession,
    dialect: MessageDialect,
    feed: Feed,
    messages: Sequence[tuple[int, Message]],
    schemas: Schemas,
) -> _Read:
    rows: list[tuple[Any, ...]] = []
    number: dict[Any, int] = {}
    places = [(m.topic, m.partition, m.offset) for _, m in messages]
    # Two records at one place are no Kafka's, nor is one without: their order in the input stands for it.
    placed = len(set(places)) == len(places) and all(m.offset is not None for _, m in messages)
    for n, m in messages:
        offset = m.offset if placed else n
        number[m.topic, m.partition, offset] = n
        rows.append((m.topic, m.partition, offset, m.timestamp, m.key, m.value, m.headers))
    millis = F.col("timestamp").try_cast("bigint")
    told_at = F.coalesce(
        F.col("timestamp").try_cast("timestamp"),
        F.when(millis.between(0, _LAST_MILLIS), F.timestamp_millis(millis)),
    )
    raw = spark.createDataFrame(rows, _MESSAGE).withColumn("timestamp", told_at)
    survey = dialect.survey(raw, feed, Known({}, {}, schemas(schema_ids(raw))))
    told = [_with_named_columns(dialect, one) for one in survey.told]
    settled = partial(mask_orders.settled_alone, dialect, feed)
    inputs = reading.inputs(dialect, feed, told, reading.Known({}, settled))
    others = reading.Input(None, None, dialect.decode_other(survey.others, feed))
    return [*inputs, others], number


def _with_named_columns(dialect: MessageDialect, told: Told) -> Told:
    if told.shape is not None or dialect.named_columns is None:
        return told
    return told._replace(shape=dialect.named_columns(ends(told.records, 1_000).samples, told.table))


def _rows(
    spark: SparkSession,
    dialect: TableDialect,
    feed: Feed,
    rows: Sequence[tuple[int, Row]],
    contracts: Mapping[str, Contract],
) -> tuple[_Read, list[Result]]:
    tables, others = change_tables.change_tables(dialect, feed, rows, contracts)
    unlisted = [
        {"record": n, "disposition": change.CONTROL, "reason": "table_not_in_feed", "detail": row.table}
        for n, row in others
    ]
    return (change_tables.inputs(spark, dialect, feed, tables), {n: n for n, _ in rows}), unlisted


def _of_input(
    dialect: Dialect, feed: Feed, one: reading.Input, number: Mapping[Any, int], keep: Keep
) -> list[Result]:
    if one.contract is None:
        kept = [c for c in _COLUMNS if c in one.decoded.columns]
        return [_no_change(row, one.table, number) for row in one.decoded.select(*kept).collect()]
    paired = reading.settled_pairs(one.decoded, dialect)
    in_utc = F.concat(F.replace(F.col("committed_at").cast("string"), F.lit(" "), F.lit("T")), F.lit("Z"))
    rows = reading.ledger_columns(paired, one.contract, feed).withColumns(
        {"committed_at": in_utc, "run_id": F.lit("decode")}
    )
    told = keep(rows.select(*_COLUMNS, "operation", *_SAID, "change_id", "run_id"))
    changes = told.where(F.col("disposition") == change.CHANGE)
    again = {row["record"] for row in duplicates.repeated(changes, None).collect()}
    collected = told.collect()
    return _results_of(collected, told.schema, one.table, again, number)


def _results_of(
    rows: Sequence[SparkRow],
    schema: T.StructType,
    table: str | None,
    again: set[SparkRow],
    number: Mapping[Any, int],
) -> list[Result]:
    parts: dict[bytes, list[int]] = defaultdict(list)
    for row in rows:
        if row["disposition"] == change.PAIRED and row["part"] == WHOLE:
            parts[bytes(row["pair_key"])].append(_number(row, number))
    found = []
    for row in rows:
        if row["disposition"] == change.PAIRED:
            continue
        if row["disposition"] != change.CHANGE:
            found.append(_no_change(row, table, number))
            continue
        told_by = [_number(row, number)]
        if row["paired_record"] is not None:
            told_by.append(number[row["paired_record"]["offset"]])
        elif row["part"] == WHOLE and row["pair_key"] is not None:
            told_by += parts[bytes(row["pair_key"])]
        told_by.sort()
        if row["record"] in again:
            said = {"disposition": change.DUPLICATE, "table": table, "reason": change.DELIVERED_AGAIN}
            found += [{"record": n, **said} for n in told_by]
            continue
        records = {"records": told_by} if len(told_by) > 1 else {}
        place = {"record": told_by[0], "disposition": change.CHANGE, **records}
        found.append({**place, "operation": row["operation"], "table": table, **_said(row, schema)})
    return found


def _said(row: SparkRow, schema: T.StructType) -> Result:
    # A table without a key has an empty one.
    told = {name: row[name] for name in _SAID if row[name] is not None and row[name] != SparkRow()}
    return {name: _plain(value, schema[name].dataType) for name, value in told.items()}


def _no_change(row: SparkRow, table: str | None, number: Mapping[Any, int]) -> Result:
    said = {"record": _number(row, number), "disposition": row["disposition"], "table": table}
    said |= {"reason": row["reason"], "detail": row["detail"]}
    return {name: value for name, value in said.items() if value is not None}


def _number(row: SparkRow, number: Mapping[Any, int]) -> int:
    record = row["record"]
    place = (record["source"], record["partition"], record["offset"])
    return number[place] if record["partition"] is not None else number[record["offset"]]


def _plain(value: Any, kind: T.DataType) -> Any:
    """A Spark value as JSON: exact numbers and times as text, bytes as 0x and hex."""
    if value is not None and isinstance(kind, T.StructType):
        return {field.name: _plain(value[field.name], field.dataType) for field in kind.fields}
    if value is not None and isinstance(kind, T.ArrayType):
        return [_plain(one, kind.elementType) for one in value]
    return dict(sorted(value.items())) if isinstance(value, dict) else _cell(value, kind)


def _cell(value: Any, kind: T.DataType) -> Any:
    if isinstance(value, bytes | bytearray):
        return f"0x{value.hex().upper()}"
    if isinstance(value, float):
        return _number_text(value, isinstance(kind, T.FloatType))
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime):
        return value.isoformat(" ")
    return value.isoformat() if isinstance(value, date) else value


def _number_text(value: float, of_32_bits: bool) -> float | str:
    """The number in as few digits as tell it; JSON has no words for infinity and NaN."""
    if not math.isfinite(value):
        return str(value)
    if not of_32_bits:
        return value
    shortened = (float(f"{value:.{digits}g}") for digits in range(6, 10))
    return next(number for number in shortened if struct.pack("f", number) == struct.pack("f", value))
