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

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as F
from pyspark.sql import types as T

from changeledger import change
from changeledger.change import quoted
from changeledger.config import SOURCE_MODELS, Connection, Feed, TableConfig, connection_variable
from changeledger.contract import Column, Contract
from changeledger.decoding.records import Message, Row, Unreadable, is_bytes
from changeledger.dialects.avro_frames import schema_ids
from changeledger.dialects.base import WHOLE, Dialect, Known, MessageDialect, TableDialect, Told, samples
from changeledger.dialects.registry import DIALECTS
from changeledger.dialects.table_rows import stored_names
from changeledger.plans import Keep, at_hand
from changeledger.reconcile import duplicates
from changeledger.stages import mask_orders, reading
from changeledger.storage.schema_registry import SchemaRegistry

Result = dict[str, Any]
Schemas = Callable[[Iterable[str]], Mapping[str, str]]
# What was read, and the number of each record by the place that the decoded rows have of it.
_Read = tuple[list[reading.Input], Mapping[Any, int]]

_MESSAGE = (
    "line int, topic string, partition int, offset bigint, timestamp string, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>"
)
_NO_RECORD = "not_a_record"
# What a result says of a change, in this order.
_SAID = (
    "key", "previous_key", "before", "after", "before_gaps", "after_gaps", "changed", "mask",
    "commit_lsn", "change_lsn", "ordinal", "committed_at", "transaction_id", "flags",
)  # fmt: skip
_COLUMNS = ("record", "disposition", "reason", "detail", "part", "pair_key", "paired_record")


class AnyTable(Feed):
    """The feed of records whose feed file nobody gave: every table that they tell is one of its own."""

    tables: tuple[TableConfig, ...] = ()

    def table(self, name: str) -> TableConfig | None:
        schema, _, table = name.partition(".")
        well_named = schema and table and "." not in table
        return super().table(name) or (TableConfig(table=name) if well_named else None)


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
        inputs, number = (
            _messages(spark, feed, records, contracts, schemas)
            if isinstance(dialect, MessageDialect)
            else _rows(spark, dialect, feed, records, contracts)
        )
        with at_hand() as keep:
            for one in inputs:
                found += _of_input(dialect, feed, one, number, keep)
    return iter(sorted(found, key=lambda result: result["record"]))


def _messages(
    spark: SparkSession,
    feed: Feed,
    records: Sequence[Message | Row | Unreadable],
    contracts: Mapping[str, Contract],
    schemas: Schemas,
) -> _Read:
    dialect = DIALECTS[feed.dialect]
    assert isinstance(dialect, MessageDialect), "asked only of these"
    rows: list[tuple[Any, ...]] = []
    number: dict[Any, int] = {}
    messages = [(n, m) for n, m in enumerate(records, 1) if isinstance(m, Message)]
    places = [(m.topic, m.partition, m.offset) for _, m in messages]
    # Two records at one place are no Kafka's, nor is one without: their order in the input stands for it.
    placed = len(set(places)) == len(places) and all(m.offset is not None for _, m in messages)
    for n, m in messages:
        offset = m.offset if placed else n
        number[m.topic, m.partition, offset] = n
        rows.append((n, m.topic, m.partition, offset, m.timestamp, m.key, m.value, m.headers))
    told_at = F.coalesce(
        F.col("timestamp").try_cast("timestamp"),
        F.timestamp_millis(F.col("timestamp").try_cast("bigint")),
    )
    raw = spark.createDataFrame(rows, _MESSAGE).withColumn("timestamp", told_at)
    known = Known(contracts, {}, schemas(schema_ids(raw)))
    survey = dialect.survey(raw.drop("line"), feed, known)
    told = [_with_named_columns(dialect, one, contracts) for one in survey.told]
    inputs = _inputs(dialect, feed, told, contracts)
    others = reading.Input(None, None, dialect.decode_other(survey.others, feed))
    return [*inputs, others], number


def _with_named_columns(dialect: MessageDialect, told: Told, contracts: Mapping[str, Contract]) -> Told:
    if told.shape is not None or told.table in contracts or dialect.named_columns is None:
        return told
    return told._replace(shape=dialect.named_columns(samples(told.records, 1_000), told.table))


def _rows(
    spark: SparkSession,
    dialect: TableDialect,
    feed: Feed,
    records: Sequence[Message | Row | Unreadable],
    contracts: Mapping[str, Contract],
) -> _Read:
    by_table: dict[str, list[tuple[int, Row]]] = defaultdict(list)
    for n, row in enumerate(records, 1):
        if isinstance(row, Row):
            by_table[row.table].append((n, row))
    told = []
    for name, of_table in by_table.items():
        shape = _shape(dialect, feed, name, [row for _, row in of_table], contracts)
        told.append(Told(shape.table, shape, _frame(spark, shape, of_table)))
    stated = {one.table: contracts.get(one.table, one.shape) for one in told}
    inputs = _inputs(dialect, feed, told, {t: c for t, c in stated.items() if c is not None})
    number: dict[Any, int] = {n: n for n in range(1, len(records) + 1)}
    return inputs, number


def _shape(
    dialect: TableDialect, feed: Feed, name: str, rows: Sequence[Row], contracts: Mapping[str, Contract]
) -> Contract:
    """A change table's columns: those of its rows, by the contract where it has them, else as text."""
    table = dialect.source_table(name)
    contract = next((c for t, c in contracts.items() if _same_table(t, table)), None)
    if contract is None and len(contracts) == 1:
        contract = next(iter(contracts.values()))
    names = dict.fromkeys(name for row in rows for name in row.cells)
    header = [n for n in names if dialect.is_header(n, feed)]
    known = {c.name.lower(): c for c in contract.columns} if contract else {}
    columns = []
    for at, column in enumerate((n for n in names if n not in header), 1):
        stated = known.get(column.lower()) or Column(name=column, type="nvarchar(max)", ordinal=at)
        place = at + len(header) if dialect.masks_count_header else stated.ordinal
        columns.append(stated.model_copy(update={"ordinal": place}))
    return Contract(table=contract.table if contract else table, columns=tuple(columns))


def _same_table(one: str, other: str) -> bool:
    """Do both name one table? A capture instance has an underscore for the dot."""
    return one.replace(".", "_").lower() == other.replace(".", "_").lower()


def _frame(spark: SparkSession, shape: Contract, rows: Sequence[tuple[int, Row]]) -> DataFrame:
    """Cells as text, for the contract to read; header columns that hold bytes as those."""
    names = list(dict.fromkeys(name for _, row in rows for name in row.cells))
    data = {c.name.lower() for c in shape.columns}
    cells = {name: [row.cells.get(name) for _, row in rows] for name in names}

    def is_binary(name: str) -> bool:
        told = [cell for cell in cells[name] if cell is not None]
        return name.lower() not in data and bool(told) and all(map(is_bytes, told))

    binary = {name for name in names if is_binary(name)}
    kinds = [(name, "binary" if name in binary else "string") for name in names]
    kept = stored_names(kinds, {})
    schema = T.StructType(
        [
            T.StructField("line", T.LongType()),
            *(
                T.StructField(name, T.BinaryType() if kind == "binary" else T.StringType())
                for name, (_, kind) in zip(kept, kinds, strict=True)
            ),
        ]
    )

    def value(name: str, cell: str | None) -> str | bytes | None:
        return bytes.fromhex(cell[2:]) if cell is not None and name in binary else cell

    data_rows = [(n, *(value(name, row.cells.get(name)) for name in names)) for n, row in rows]
    frame = spark.createDataFrame(data_rows, schema)
    record = F.struct(
        F.lit(shape.table).alias("source"),
        F.lit(None).cast("int").alias("partition"),
        F.col("line").alias("offset"),
        F.lit(None).cast("binary").alias("row"),
    )
    return frame.select(record.alias("record"), *(F.col(quoted(name)) for name in kept))


def _inputs(
    dialect: Dialect, feed: Feed, told: Sequence[Told], contracts: Mapping[str, Contract]
) -> list[reading.Input]:
    settled = partial(mask_orders.settled_alone, dialect, feed)
    return reading.inputs(dialect, feed, told, reading.Known(contracts, settled))


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
            said = {"disposition": change.DUPLICATE, "table": table, "reason": "delivered_again"}
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
