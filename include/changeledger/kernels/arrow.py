"""Arrow types of the lake's columns, and helpers that build and move whole columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.model import change
from changeledger.model.contract import Column, Contract
from changeledger.model.sql_type import SqlType

Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Indices = npt.NDArray[np.int64]
Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

_BINARY = pa.binary()
_CELLS = (pa.Array, pa.ChunkedArray, np.ndarray, list)
GAPS = pa.map_(pa.string(), pa.string())
NAMES = pa.list_(pa.string())
INSTANT = pa.timestamp("us", tz="UTC")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
RECORD = pa.struct(
    [("source", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("row", pa.binary())]
)
POSITIONS = pa.schema([("source_position", RECORD)])
BREAK = pa.struct([("kind", pa.string()), ("columns", NAMES), ("previous_change_id", pa.string())])

_PLAIN: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": INSTANT,
    "timestamp_ntz": pa.timestamp("us"),
    "string": pa.string(),
    "binary": pa.binary(),
    "map<string,string>": GAPS,
    "array<string>": NAMES,
    "array<struct<key:string,value:binary>>": HEADERS,
    change.RECORD_TYPE: RECORD,
    change.BREAK_TYPE: BREAK,
}


def arrow_type(spark_type: str) -> pa.DataType:
    """Returns the Arrow type in which Spark exchanges a type of the ledger."""
    if spark_type.startswith("decimal"):
        sql = SqlType.parse(spark_type)
        return pa.decimal128(sql.length or 0, sql.scale or 0)
    return _PLAIN[spark_type]


@lru_cache(maxsize=256)
def row_type(columns: tuple[Column, ...]) -> pa.StructType:
    return pa.struct([(c.name, arrow_type(c.spark_type)) for c in columns])


@lru_cache(maxsize=256)
def ledger_schema(contract: Contract) -> pa.Schema:
    """Returns the schema of a table's ledger."""
    shapes = {"<key>": row_type(contract.key), "<image>": row_type(contract.columns)}
    return pa.schema(
        [(name, shapes[kind] if kind in shapes else arrow_type(kind)) for name, kind in change.LEDGER_COLUMNS]
    )


def history_schema(contract: Contract) -> pa.Schema:
    """Returns the schema of a table's history."""
    kinds = {"_previous_key": row_type(contract.key)}
    return pa.schema(
        [(name, kinds.get(name) or arrow_type(kind)) for name, kind in change.history_columns(contract)]
    )


def table_schema(columns: Sequence[tuple[str, str]]) -> pa.Schema:
    """Returns the schema of (name, Spark type) pairs, none of which depends on a contract."""
    return pa.schema([(name, arrow_type(kind)) for name, kind in columns])


# A raw Kafka message, as the raw table has it.
MESSAGE = table_schema(change.MESSAGE_COLUMNS)


def column(table: pa.Table, name: str) -> pa.Array:
    """Returns a column of a table as one contiguous array."""
    chunked = table.column(name)
    return chunked.chunk(0) if chunked.num_chunks == 1 else chunked.combine_chunks()


def flags_of(condition: pa.Array) -> Bools:
    """Converts a boolean column to numpy; NULL becomes False."""
    known = condition.fill_null(fill_value=False) if condition.null_count else condition
    flags: Bools = known.to_numpy(zero_copy_only=False)
    return flags


def equal(values: pa.Array, value: str) -> Bools:
    """Returns which of the values equal `value`."""
    return flags_of(pc.equal(values, value))


def holding(lists: pa.ListArray, value: str) -> Bools:
    """Returns which of the lists contain `value`."""
    is_holding = np.zeros(len(lists), np.bool_)
    is_holding[pc.list_parent_indices(lists).to_numpy()[equal(lists.flatten(), value)]] = True
    return is_holding


def same(value: str | None, rows: int) -> pa.StringArray:
    """Returns a column with the same text, or NULL, in every row."""
    return pa.repeat(pa.scalar(value, pa.string()), rows)


def taken(array: pa.Array, rows: Indices) -> pa.Array:
    """Takes the values at these rows; a row below 0 becomes NULL."""
    absent = rows < 0
    if not absent.any():
        return array.take(pa.array(rows))
    return array.take(pa.array(np.where(absent, 0, rows), mask=absent))


def members(struct: pa.StructArray) -> dict[str, pa.Array]:
    """Returns the fields of a struct as columns, NULL where the struct is NULL."""
    return dict(zip((field.name for field in struct.type), struct.flatten(), strict=True))


def by_name(rows: Rows) -> dict[str, pa.Array]:
    """Returns the columns of a batch or table by name."""
    return dict(zip(rows.schema.names, rows.columns, strict=True))


def empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema)


def batch_of(columns: Mapping[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    """Builds a batch from columns by name: cells, or one value for all rows. A missing column is NULL."""
    return pa.RecordBatch.from_arrays(_cells_in(columns, schema), schema=schema)


def table_of(columns: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    """Like `batch_of`, but builds a table and also accepts chunked arrays."""
    return pa.table(_cells_in(columns, schema), schema=schema)


def _cells_in(columns: Mapping[str, Any], schema: pa.Schema) -> list[pa.Array]:
    size = next(len(cells) for cells in columns.values() if isinstance(cells, _CELLS))
    return [_cells(columns.get(field.name), field.type, size) for field in schema]


def _cells(given: Any, kind: pa.DataType, size: int) -> pa.Array:
    if given is None:
        return pa.nulls(size, kind)
    if isinstance(given, np.ndarray | list):
        return pa.array(given, kind)
    if isinstance(given, pa.Array | pa.ChunkedArray):
        return given if given.type == kind else given.cast(kind)
    return pa.repeat(pa.scalar(given, kind), size)


def with_column(rows: Rows, name: str, cells: pa.Array) -> Rows:
    """Replaces the cells of one column in a batch or table."""
    at = rows.schema.get_field_index(name)
    return rows.set_column(at, rows.schema.field(at), cells)


def as_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns the schema's columns, cast to its types: the batch may name its lists' items differently."""
    if batch.schema.equals(schema):
        return batch
    columns = [batch.column(field.name).cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def places(rows: Indices, size: int) -> pa.Array:
    """Returns indices for `take` that spread the values of `rows` over `size` rows; NULL for all others."""
    indices = np.zeros(size, np.int32)
    indices[rows] = np.arange(len(rows), dtype=np.int32)
    absent = np.ones(size, np.bool_)
    absent[rows] = False
    return pa.array(indices, mask=absent)


def valid(array: pa.Array) -> Bools:
    """Returns which values are not NULL."""
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    flags: Bools = array.is_valid().to_numpy(zero_copy_only=False)
    return flags


def bitmap(flags: Bools) -> pa.Buffer | None:
    """Returns the validity buffer of an Arrow array, or None if all values are valid."""
    return None if flags.all() else pa.array(flags).buffers()[1]


def fixed_width(cells: Bytes, known: Bools | None = None, kind: pa.DataType = _BINARY) -> pa.Array:
    """Builds a string or binary array from one row of bytes per value; NULL where not `known`."""
    rows, width = cells.shape
    known = np.ones(rows, np.bool_) if known is None else known
    offsets = np.arange(0, (rows + 1) * width, max(width, 1), dtype=np.int32)[: rows + 1]
    if not known.all():
        cells = cells[known]
        offsets = np.concatenate(([0], np.cumsum(known, dtype=np.int32) * width)).astype(np.int32)
    buffers = [bitmap(known), pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(cells))]
    return pa.Array.from_buffers(kind, rows, buffers)


def numbers(array: pa.Array) -> npt.NDArray[Any]:
    """Returns the raw values of a column of numbers, dates or timestamps; NULL gives an arbitrary number."""
    letter = "f" if pa.types.is_floating(array.type) else "i"
    raw = np.frombuffer(array.buffers()[1], f"{letter}{array.type.bit_width // 8}")
    values: npt.NDArray[Any] = raw[array.offset : array.offset + len(array)]
    return values


def named_where(flags: Bools, names: Sequence[str], known: Bools) -> pa.Array:
    """Returns array<string> with the names whose flag is set in each row; NULL for rows not `known`."""
    flags = flags & known[:, None]
    _, column = np.nonzero(flags)
    offsets = np.concatenate(([0], np.cumsum(flags.sum(axis=1)))).astype(np.int32)
    values = pa.array(list(names), pa.string()).take(pa.array(column, pa.int32()))
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=None if known.all() else pa.array(~known))
