"""Debezium's JSON cells as values of their columns' types, in the modes in which a connector writes them.

A time is a count in the unit of the connector's mode, or, in any mode, ISO text: no number looks like it.
Source: the connector's chapter on data types; `decimal.handling.mode`, `time.precision.mode`,
`binary.handling.mode`.
"""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.config.sources import DebeziumSource, TimePrecision
from changeledger.kernels import cells, sql_text
from changeledger.kernels.arrow import arrow_type, numbers, valid
from changeledger.kernels.binary_text import from_base64, from_hex
from changeledger.kernels.cells import Cells
from changeledger.kernels.sql_text import DAYS, MICROS, MICROS_A_DAY, Reader
from changeledger.model.contract import Column
from changeledger.model.sql_type import SqlType

_TEMPORAL = {"date", "time", "datetime", "smalldatetime", "datetime2"}
_UNITS: Mapping[TimePrecision, int] = {"connect": 3, "microseconds": 6, "nanoseconds": 9}
_LONG = (-(2**63), 2**63 - 1)
# SQL Server counts in 100 ns.
_TICK_DIGITS = 7


class Cell(NamedTuple):
    """How the connector writes one column."""

    # What msgspec takes for it; anything else is not as usual.
    wire: Any
    # A column of what msgspec gave. Raises one of `UNUSUAL` where something else is in it.
    convert: Callable[[Sequence[Any]], Cells]
    # The text of one cell.
    read: Reader
    # What stands for a value that the connector could not read.
    placeholders: tuple[str, ...]
    is_text: bool
    # Of a decimal the text of a JSON number, whatever the setting says; None of other types.
    read_number: Reader | None = None


UNUSUAL = (pa.ArrowException, TypeError, OverflowError, ValueError)


def cell_of(column: Column, source: DebeziumSource) -> Cell:
    sql = column.sql_type
    read = reader(sql, source)
    placeholders = _placeholders(sql, source)
    if sql.base in _TEMPORAL:
        unit = _unit(sql, source.time_precision_mode)
        least, most = _limits(sql, unit)
        wire = Annotated[int, msgspec.Meta(ge=least, le=most)] | str
        return Cell(wire, _counted(sql, unit), read, placeholders, is_text=False)
    if sql.spark.startswith("decimal"):
        number = sql_text.reader(sql)
        if source.decimal_handling_mode != "precise":
            return Cell(msgspec.Raw, _plain_decimals(sql, read), read, placeholders, False, number)
        return Cell(str, _from_strings(sql, read), read, placeholders, True, number)
    if sql.spark in {"string", "binary"}:
        return Cell(str, _from_strings(sql, read), read, placeholders, is_text=True)
    return Cell(_wire_of_number(sql), _numbers(sql), read, placeholders, is_text=False)


def _placeholders(sql: SqlType, source: DebeziumSource) -> tuple[str, ...]:
    plain = source.unavailable_value_placeholder
    if sql.spark == "string":
        return (plain,)
    raw, mode = plain.encode(), source.binary_handling_mode
    encode = urlsafe_b64encode if mode == "base64-url-safe" else b64encode
    return plain, raw.hex() if mode == "hex" else encode(raw).decode()


def _unit(sql: SqlType, mode: TimePrecision) -> int:
    """The unit of a column's counts: of a second 10 to the power of 3, 6 or 9. Of texts, `adaptive`'s."""
    if mode in _UNITS:
        return _UNITS[mode]
    digits = 6 if mode == "adaptive_time_microseconds" and sql.base == "time" else sql.fraction_digits
    return 3 if digits <= 3 else 6 if digits <= 6 else 9


def _from_strings(sql: SqlType, read: Reader) -> Callable[[Sequence[Any]], Cells]:
    if sql.spark.startswith("decimal"):
        lake = SqlType.parse(sql.spark)
        precision, scale = lake.length or 0, lake.scale or 0
        return lambda values: cells.from_base64_decimals(
            _texts(values), precision, scale, most_bytes(precision)
        )
    convert = cells.from_texts(sql, read)
    if sql.spark == "binary":
        convert = cells.one_by_one(read, pa.binary())
    return lambda values: convert(_texts(values))


def _texts(values: Sequence[Any]) -> pa.StringArray:
    return values if isinstance(values, pa.Array) else pa.array(values, pa.string())


def _wire_of_number(sql: SqlType) -> Any:
    if sql.base == "bit":
        return bool
    if sql.spark in {"float", "double"}:
        return float
    least, most = sql_text.whole_range(sql)
    return Annotated[int, msgspec.Meta(ge=least, le=most)]


def _numbers(sql: SqlType) -> Callable[[Sequence[Any]], Cells]:
    if sql.spark == "float":
        return cells.reals
    kind = arrow_type(sql.spark)
    return lambda values: Cells(pa.array(values, kind))


def _limits(sql: SqlType, unit: int) -> tuple[int, int]:
    """The least and the greatest count in units, of which a second has 10 to the power of 3, 6 or 9."""
    if sql.base == "date":
        return DAYS
    least, most = (0, MICROS_A_DAY - 1) if sql.base == "time" else MICROS
    if unit == 3:
        return least // 1000, most // 1000
    if unit == 6:
        return least, most
    return max(least * 1000, _LONG[0]), min(most * 1000 + 999, _LONG[1])


def _step(sql: SqlType, unit: int) -> int:
    """A count of units is a multiple of this one.

    Finer digits than the lake's type has were never in the column: the connector's count of nanoseconds has
    wrapped around at 64 bits, as it does outside the years 1677 to 2262 (debezium/debezium#7529), or its unit
    is another one. No wrapped count is a multiple of 100: 2^64 mod 100 is 16.
    """
    if sql.base == "date":
        return 1
    kept = 6 if sql.spark == "timestamp_ntz" else min(sql.fraction_digits, _TICK_DIGITS)
    step: int = 10 ** max(unit - kept, 0)
    return step


def _counted(sql: SqlType, unit: int) -> Callable[[Sequence[Any]], Cells]:
    """Columns of counts."""
    digits, step = sql.fraction_digits, _step(sql, unit)

    def convert(values: Sequence[Any]) -> Cells:
        if sql.base == "date":
            return Cells(pa.array(values, pa.int32()).cast(pa.date32()))
        counts, unfit = pa.array(values, pa.int64()), None
        if step > 1:
            between = valid(counts) & (numbers(counts) % step != 0)
            if between.any():
                unfit, counts = between, pc.if_else(between, pa.scalar(None, pa.int64()), counts)
        return Cells(moments(counts), unfit)

    def moments(counts: pa.Int64Array) -> pa.Array:
        if sql.base == "time":
            return cells.times(counts, 10 ** (9 - unit), digits)
        if unit == 9 and sql.spark == "timestamp_ntz":
            return pc.cast(pc.cast(counts, pa.timestamp("ns")), pa.timestamp("us"))
        if unit == 9:
            return cells.nanosecond_texts(counts)
        timestamps = cells.timestamps(counts, 10 ** (6 - unit))
        if sql.spark == "timestamp_ntz":
            return timestamps
        return pc.binary_join_element_wise(pc.cast(timestamps, pa.string()), "0", "")

    return convert


def _plain_decimals(sql: SqlType, read: Reader) -> Callable[[Sequence[Any]], Cells]:
    """Decimals as JSON's numbers or as their texts; those in other forms are read one by one."""
    lake = SqlType.parse(sql.spark)
    scale, kind = lake.scale or 0, arrow_type(sql.spark)
    plain = rf"^-?\d{{1,{max((lake.length or 0) - scale, 1)}}}" + (
        rf"(\.\d{{1,{scale}}})?$" if scale else "$"
    )
    alone = cells.one_by_one(read, kind)

    def convert(values: Sequence[Any]) -> Cells:
        tokens = pa.array([None if value is None else bytes(value) for value in values], pa.string())
        tokens = pc.if_else(pc.equal(tokens, "null"), pa.scalar(None, pa.string()), tokens)
        texts = pc.utf8_trim(tokens, characters='"')
        if pc.all(pc.match_substring_regex(texts, plain)).as_py() is not False:
            try:
                return Cells(pc.cast(texts, kind))
            except pa.ArrowInvalid:
                pass
        return alone(texts)

    return convert


def reader(sql: SqlType, source: DebeziumSource) -> Reader:
    """The value of a cell's text, as the connector's settings have it."""
    if sql.base in _TEMPORAL:
        return _temporal(sql, _unit(sql, source.time_precision_mode))
    if sql.spark.startswith("decimal") and source.decimal_handling_mode == "precise":
        lake = SqlType.parse(sql.spark)
        return lambda text: _encoded_decimal(text, lake.length or 0, lake.scale or 0)
    if sql.spark == "binary":
        return _hex if source.binary_handling_mode == "hex" else _base64_of_either_alphabet
    return sql_text.reader(sql)


def _hex(text: str) -> bytes | None:
    # An odd number of digits lacks a zero in front (Spark's `to_binary`).
    return from_hex(text if len(text) % 2 == 0 else f"0{text}")


def _base64_of_either_alphabet(text: str) -> bytes | None:
    """The alphabet for addresses has - and _ where the usual one has + and /."""
    found = from_base64(text)
    return from_base64(text.translate({45: "+", 95: "/"})) if found is None else found


def most_bytes(precision: int) -> int:
    return 8 if precision <= 18 else 17


def _encoded_decimal(text: str, precision: int, scale: int) -> Decimal | None:
    """From base64 of a big-endian two's complement; the scale is the contract's."""
    digits = from_base64(text)
    if not digits or len(digits) > most_bytes(precision):
        return None
    return sql_text.of_unscaled(int.from_bytes(digits, "big", signed=True), precision, scale)


def _temporal(sql: SqlType, unit: int) -> Reader:
    """From a count of units; else from ISO text, `2018-06-20T15:13:16.945Z`."""
    least, most = _limits(sql, unit)
    counted, step = _counted(sql, unit), _step(sql, unit)
    written = sql_text.reader(sql)

    def read(text: str) -> Any:
        count = sql_text.whole(text, least, most)
        if count is None:
            return written(text[:-1]) if text.endswith("Z") and " " not in text else None
        if count % step:
            return None
        if sql.spark == "string":
            return counted([count]).values[0].as_py()
        return count if sql.base == "date" else count * 10 ** (9 - unit) // 1000

    return read
