"""Converts cells of change tables from the types in which they were read to the contract's types.

* A column that already has the contract's type is taken as it is, except numbers and fractions of a second
  that SQL Server's type does not have.
* Texts of times, GUIDs and padded types get their canonical form (docs/types.md), however they were read.
* A number becomes the same number of the other type, or does not fit.
* Everything else is converted by way of its text, as `text_cells` reads it.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.dialects.tables.rows import RawRows, Read, kind_of
from changeledger.kernels import cells, masks, sql_text, text_cells
from changeledger.kernels.arrow import NAMES, arrow_type, by_name, named_where, numbers, row_type, valid
from changeledger.kernels.binary_text import sizes
from changeledger.kernels.cast_text import as_text
from changeledger.model.change import UNFIT_COLUMNS
from changeledger.model.contract import Column, Contract
from changeledger.model.sql_type import SqlType

# The types whose texts have one canonical form: a raw text is never taken as it is.
_IN_FORM = {
    "uniqueidentifier", "char", "nchar", "date", "time", "datetime", "smalldatetime", "datetime2",
    "datetimeoffset",
}  # fmt: skip
_PADDED = {"char", "nchar"}
# Decimal digits that a floating-point number always preserves; a number with more may have been rounded.
_KEPT_DIGITS = {pa.float32(): 6, pa.float64(): 15}
# A 32-bit float represents every whole number up to this one.
_WHOLE_IN_FLOAT32 = 2**24


def cells_of(rows: RawRows, column: Column, *, empty_is_null: bool) -> cells.Cells:
    """Returns the column's cells, all NULL if the rows lack the column.

    `unfit` marks the cells whose value is not one of the column's type.
    """
    parts = [_typed(read, column, empty_is_null) for read in rows.read(column.name)]
    if not parts:
        return cells.Cells(pa.nulls(rows.size, arrow_type(column.spark_type)))
    values = pc.coalesce(*(part.values for part in parts))
    unfit = [part.unfit for part in parts if part.unfit is not None]
    return cells.Cells(values, np.logical_or.reduce(unfit) if unfit else None)


def typed_schema(contract: Contract) -> pa.Schema:
    return pa.schema([*row_type(contract.columns), pa.field(UNFIT_COLUMNS, NAMES)])


def typed(read: pa.RecordBatch, contract: Contract) -> pa.RecordBatch:
    """Converts rows of a source table itself to `typed_schema`.

    A value that is not one of its column's type becomes NULL, and the row's `UNFIT_COLUMNS` name the column.
    Columns may have any name here, even one that a raw table reserves.
    """
    reads = {name.lower(): [Read(kind_of(values.type), values)] for name, values in by_name(read).items()}
    rows = RawRows(read.num_rows, {}, reads)
    columns = [cells_of(rows, column, empty_is_null=False) for column in contract.columns]
    fits = np.zeros(read.num_rows, np.bool_)
    unfit = np.column_stack([fits if column.unfit is None else column.unfit for column in columns])
    unfit_columns = named_where(unfit, contract.names, masks.any_set(unfit))
    return pa.RecordBatch.from_arrays(
        [*(column.values for column in columns), unfit_columns], schema=typed_schema(contract)
    )


def _typed(read: Read, column: Column, empty_is_null: bool) -> cells.Cells:
    if empty_is_null and read.kind == "string":
        is_empty = pc.equal(read.values, "")
        read = read._replace(values=pc.if_else(is_empty, pa.scalar(None, pa.string()), read.values))
    values = _converted(read, column)
    unfit = valid(read.values) & ~valid(values)
    return cells.Cells(values, unfit if unfit.any() else None)


def _converted(read: Read, column: Column) -> pa.Array:
    """Converts values to the column's type; NULL where a value does not fit."""
    values, sql = read.values, column.sql_type
    in_form = sql.base in _IN_FORM
    is_typed = read.kind == column.spark_type and not (in_form and read.kind == "string")
    if is_typed and not (pa.types.is_timestamp(values.type) and _are_finer(values, sql)):
        return _in_range(values, sql)
    kind = arrow_type(column.spark_type)
    nothing = pa.nulls(len(values), kind)
    if _are_numbers(values.type, kind):
        return _in_range(_of_number(values, kind), sql)
    if column.spark_type == "binary":
        return _of_hex(values, sql) if read.kind == "string" else nothing
    if read.kind == "boolean":
        # SQL Server prints a bit as 1 or 0, not as true or false: a boolean fits no other type.
        return nothing
    if read.kind != "binary":
        return of_texts(as_text(values), sql)
    # Bytes convert to text only: a rowversion whose eight bytes are digits is not a number.
    is_text = column.spark_type == "string" and sql.base not in _IN_FORM - _PADDED
    return of_texts(_of_utf8(values), sql) if is_text else nothing


def _are_numbers(read: pa.DataType, kind: pa.DataType) -> bool:
    """Returns whether to convert from number to number rather than by way of the text.

    False from decimal to floating point, because Arrow rounds.
    """
    rounds = pa.types.is_decimal(read) and pa.types.is_floating(kind)
    return _is_number(read) and _is_number(kind) and not rounds


def _is_number(kind: pa.DataType) -> bool:
    is_number: bool = pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_floating(kind)
    return is_number


def _are_finer(values: pa.TimestampArray, sql: SqlType) -> bool:
    """Returns whether a time has more fractional digits than the type.

    A target may store a `datetime` as a `datetime2`.
    """
    step = 10 ** max(6 - sql.fraction_digits, 0)
    return bool((numbers(values)[valid(values)] % step).any())


def _of_utf8(values: pa.BinaryArray) -> pa.StringArray:
    """Decodes UTF-8; NULL where bytes are not UTF-8."""

    def text(value: bytes) -> str | None:
        try:
            return value.decode()
        except UnicodeDecodeError:
            return None

    return cells.each(values.to_pylist(), text, pa.string()).values


def _of_hex(texts: pa.StringArray, sql: SqlType) -> pa.BinaryArray:
    """Decodes hex; NULL where a text is not hex, has lost a digit, or has a size outside the type's."""
    is_odd = pc.equal(pc.bit_wise_and(pc.binary_length(texts), 1), 1)
    values = masks.from_texts(pc.if_else(is_odd, pa.scalar(None, pa.string()), texts))
    least, most = sizes(sql)
    if most is None:
        return values
    length = pc.binary_length(values)
    fits = pc.and_(pc.greater_equal(length, least), pc.less_equal(length, most))
    return pc.if_else(fits, values, pa.scalar(None, pa.binary()))


def of_texts(texts: pa.StringArray, sql: SqlType) -> pa.Array:
    """Converts texts to the lake's type; NULL where a text does not fit."""
    return text_cells.from_texts(sql, text_cells.lenient_reader(sql))(texts).values


def _in_range(values: pa.Array, sql: SqlType) -> pa.Array:
    """Replaces values that SQL Server's type lacks with NULL: a tinyint ends at 255, a float is finite."""
    if sql.base == "tinyint":
        fits = pc.and_(pc.greater_equal(values, 0), pc.less_equal(values, 255))
    elif pa.types.is_floating(values.type):
        fits = pc.is_finite(values)
    else:
        return cells.in_range(sql, cells.Cells(values)).values
    return pc.if_else(fits, values, pa.scalar(None, values.type))


def _of_number(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Converts numbers to another type; NULL where that type lacks the number. Never rounds or truncates."""
    if pa.types.is_float32(kind):
        return _to_float32(values)
    is_rounded = pa.types.is_floating(values.type) and not pa.types.is_floating(kind)
    if is_rounded or _may_overflow(values.type, kind):
        return _one_by_one_exactly(values, kind)
    try:
        return pc.cast(values, kind)
    except pa.ArrowInvalid:
        return _one_by_one_exactly(values, kind)


def _may_overflow(read: pa.DataType, kind: pa.DataType) -> bool:
    """Returns whether rescaling a decimal may overflow its 128 bits, which Arrow does not notice."""
    if not (pa.types.is_decimal(read) and pa.types.is_decimal(kind)):
        return False
    places: int = kind.scale - read.scale
    return places > 0 and read.precision + places > kind.precision


def _to_float32(values: pa.Array) -> pa.Array:
    """Converts to 32-bit floats that are equal or have the same shortest text; NULL for other numbers.

    0.1 is 0.1 in both widths.
    """
    wide = numbers(pc.cast(values, pa.float64(), safe=False))
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
    fits = valid(values) & np.isfinite(narrow)
    is_exact = narrow.astype(np.float64) == wide
    if not pa.types.is_floating(values.type):
        is_exact &= np.abs(wide) <= _WHOLE_IN_FLOAT32
    for row in np.flatnonzero(fits & ~is_exact):
        fits[row] = Decimal(str(values[int(row)].as_py())) in {
            Decimal(float(narrow[row])),
            Decimal(str(narrow[row])),
        }
    return pa.array(narrow, pa.float32(), mask=~fits)


def _one_by_one_exactly(values: pa.Array, kind: pa.DataType) -> pa.Array:
    kept_digits = _KEPT_DIGITS.get(values.type)

    def exact(value: float | Decimal) -> float | Decimal | None:
        if isinstance(value, float) and not np.isfinite(value):
            return None
        number = Decimal(str(np.float32(value)) if pa.types.is_float32(values.type) else str(value))
        if kept_digits is not None and len(number.normalize().as_tuple().digits) > kept_digits:
            return None
        if pa.types.is_decimal(kind):
            return sql_text.scaled(number, kind.precision, kind.scale)
        if pa.types.is_floating(kind):
            return float(number) if Decimal(float(number)) == number else None
        most = 2 ** (kind.bit_width - 1)
        return int(number) if -most <= number < most and number % 1 == 0 else None

    return cells.each(values.to_pylist(), exact, kind).values
