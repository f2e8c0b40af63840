"""Converts Debezium's JSON cells to values of their columns' types, by the modes of the connector.

Source: the connector's chapter on data types; `decimal.handling.mode`, `time.precision.mode`,
`binary.handling.mode`.
"""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.config.sources import DebeziumSource
from changeledger.dialects.debezium import decimals, fields, times
from changeledger.dialects.debezium.fields import Field
from changeledger.kernels import cells, json_text, ranges, sql_text, text_cells
from changeledger.kernels.arrow import arrow_type
from changeledger.kernels.binary_text import from_hex, from_padded_base64, is_likely_hex, of_size
from changeledger.kernels.cells import Cells
from changeledger.kernels.sql_text import Reader
from changeledger.model.contract import Column
from changeledger.model.sql_type import SqlType


class Cell(NamedTuple):
    """How the connector writes one column."""

    # The type for msgspec; a message with any other value is unusual.
    wire: Any
    # Converts a column of values from msgspec. Raises one of `UNUSUAL` for a value of another kind.
    convert: Callable[[Sequence[Any]], Cells]
    # Reads the text of one cell.
    read: Reader
    # The texts that stand for a value that the connector could not read.
    placeholders: tuple[str, ...]
    is_text: bool
    # Reads the text of a JSON number or Boolean, if that means something else than the same text in quotes.
    read_unquoted: Reader | None = None
    # Tells whether a JSON number may have lost digits.
    is_inexact: Callable[[str], bool] | None = None
    # Why no value of the column can be trusted, if none can.
    contradiction: str | None = None
    # For a key column: says how the connector altered a text that several rows may have, or None.
    key_lost: Callable[[str], str | None] | None = None

    @property
    def of_unquoted(self) -> Reader:
        return self.read if self.read_unquoted is None else self.read_unquoted


UNUSUAL = (pa.ArrowException, TypeError, OverflowError, ValueError)


def cell_of(column: Column, source: DebeziumSource, field: Field | None = None) -> Cell:
    """Returns how a column is written. `field`: the column's field in the messages' schema block."""
    sql = column.sql_type
    placeholders = _placeholders(column, source, field)
    contradiction = fields.contradiction(sql, source, field)
    if contradiction is not None:
        nothing = _of_tokens(_no_value, arrow_type(sql.spark))
        return Cell(msgspec.Raw, nothing, _no_value, placeholders, False, contradiction=contradiction)
    if sql.base in times.TEMPORAL or sql.base == "datetimeoffset":
        return _in_range(sql, _of_time(sql, source, field, placeholders))
    if sql.spark.startswith("decimal"):
        return _in_range(sql, _of_decimal(sql, source, field, placeholders))
    if sql.spark == "binary":
        of_text = of_size(sql, _of_bytes(source, field))
        convert = cells.one_by_one(of_text, pa.binary())
        # A number or `true` is no text of bytes, though it may look like base64.
        return Cell(str, lambda values: convert(cells.texts(values)), of_text, placeholders, True, _no_value)
    read = sql_text.reader(sql)
    if sql.spark == "string":
        of_texts = text_cells.from_texts(sql, read)
        unquoted = _number(read) if column.length_stated else None
        cell = Cell(str, lambda values: of_texts(cells.texts(values)), read, placeholders, True, unquoted)
        return _of_key(cell, field, sql) if column.key_position and field is not None else cell
    is_widened = sql.spark == "double" and field is not None and field.is_single
    convert = _widened if is_widened else _numbers(sql)
    # The column was a real: 1.1 in 32 bits is 1.10000002384185791.
    read = sql_text.real if is_widened else read
    unquoted = _of_json(read) if sql.spark in {"float", "double"} else None
    return Cell(_wire_of_number(sql), convert, read, placeholders, False, unquoted)


def _of_key(cell: Cell, field: Field, sql: SqlType) -> Cell:
    """Returns the cell of a key column, which refuses texts that may stand for several keys.

    Rows with the same text in place of different keys would overwrite each other.
    """
    if field.cut is not None and sql.length is not None and 0 < sql.length <= field.cut:
        field = field._replace(cut=None)
    if field.altered is None:
        return cell

    def key_lost(text: str) -> str | None:
        return field.altered if field.may_be_of_several(text) else None

    of_texts = cells.one_by_one(lambda text: None if key_lost(text) else cell.read(text), pa.string())
    return cell._replace(convert=lambda values: of_texts(cells.texts(values)), key_lost=key_lost)


def _in_range(sql: SqlType, cell: Cell) -> Cell:
    """Returns the cell with a check of the type's range, which counts and decimals may exceed."""
    convert = cell.convert
    return cell._replace(
        convert=lambda values: cells.in_range(sql, convert(values)),
        read=ranges.reading(sql, cell.read),
        read_unquoted=ranges.reading(sql, cell.of_unquoted),
    )


def _of_time(
    sql: SqlType, source: DebeziumSource, field: Field | None, placeholders: tuple[str, ...]
) -> Cell:
    unit, kind = fields.unit(sql, source, field), arrow_type(sql.spark)
    read = times.written(sql)
    if field.is_structured if field is not None else source.time_precision_mode == "structured":
        return Cell(msgspec.Raw, _of_tokens(read, kind), read, placeholders, is_text=False)
    if unit is None:
        of_texts = (
            text_cells.from_texts(sql, read) if sql.base == "datetimeoffset" else cells.one_by_one(read, kind)
        )
        return Cell(str, lambda values: of_texts(cells.texts(values)), read, placeholders, is_text=True)
    least, most = times.limits(sql, unit)
    wire, of_count = Annotated[int, msgspec.Meta(ge=least, le=most)] | str, times.count_reader(sql, unit)
    return Cell(wire, times.counted(sql, unit), read, placeholders, is_text=False, read_unquoted=of_count)


def _of_decimal(
    sql: SqlType, source: DebeziumSource, field: Field | None, placeholders: tuple[str, ...]
) -> Cell:
    form = decimals.form(sql, source, field)
    read, read_number = decimals.reader(form), decimals.number_reader(sql, form)
    is_inexact = partial(decimals.is_inexact, how=form)
    if form.is_bytes:
        return Cell(str, decimals.of_bytes(form), read, placeholders, True, read_number, is_inexact)
    convert = decimals.of_tokens(sql, form)
    return Cell(msgspec.Raw, convert, read, placeholders, False, read_number, is_inexact)


def _number(read: Reader) -> Reader:
    """Returns a reader that refuses `true` and `false`: as text, a bit is 1 or 0 in SQL Server."""
    return lambda text: None if text in {"true", "false"} else read(text)


def _of_json(read: Reader) -> Reader:
    """Returns a reader that first takes a JSON number as 64 bits, so that further digits do not count."""

    def read_number(text: str) -> Any:
        number = json_text.number(text.encode())
        return None if number is None else read(str(number))

    return read_number


def _no_value(_text: str) -> None:
    return None


def _is_hex(source: DebeziumSource, field: Field | None) -> bool:
    is_bytes = field is not None and field.kind == "bytes"
    return source.binary_handling_mode == "hex" and not is_bytes


def _placeholders(column: Column, source: DebeziumSource, field: Field | None) -> tuple[str, ...]:
    """Returns the placeholders for values that the connector could not read, as text and as encoded bytes.

    A text column without a stated type may hold bytes, in hex or base64.
    """
    raw = source.placeholder_bytes
    # Java decodes bytes in the same way: it replaces those that are no UTF-8.
    plain = raw.decode(errors="replace")
    in_hex, in_base64 = (raw.hex(), raw.hex().upper()), (b64encode(raw), urlsafe_b64encode(raw))
    texts = (plain, *in_hex, *(text.decode() for text in in_base64))
    if column.spark_type != "string":
        texts = texts[:3] if _is_hex(source, field) else (plain, *texts[3:])
    elif column.length_stated:
        texts = (plain,)
    return tuple(dict.fromkeys(texts))


def _of_tokens(read: Reader, kind: pa.DataType) -> Callable[[Sequence[Any]], Cells]:
    """Returns the converter of columns of JSON tokens, which are read one by one."""
    return lambda tokens: cells.each([json_text.text(token) for token in tokens], read, kind)


def _wire_of_number(sql: SqlType) -> Any:
    if sql.base == "bit":
        return bool
    if sql.spark in {"float", "double"}:
        # Arrow refuses an integer with more digits than a float keeps.
        return int | float
    least, most = sql_text.whole_range(sql)
    return Annotated[int, msgspec.Meta(ge=least, le=most)]


def _numbers(sql: SqlType) -> Callable[[Sequence[Any]], Cells]:
    if sql.spark == "float":
        return cells.reals
    kind = arrow_type(sql.spark)
    return lambda values: Cells(pa.array(values, kind))


def _widened(values: Sequence[Any]) -> Cells:
    """Converts 32-bit numbers to 64-bit ones."""
    narrow = cells.reals(values)
    return narrow._replace(values=pc.cast(narrow.values, pa.float64()))


def _of_bytes(source: DebeziumSource, field: Field | None) -> Reader:
    """Returns the reader of bytes as hex or base64.

    If only the setting says base64, a text that looks like hex is refused: another connector wrote it.
    """
    if _is_hex(source, field):
        return from_hex
    if field is not None and field.kind == "bytes":
        return _base64_of_either_alphabet
    return lambda text: None if is_likely_hex(text) else _base64_of_either_alphabet(text)


def _base64_of_either_alphabet(text: str) -> bytes | None:
    """Reads base64 in the standard or the URL-safe alphabet, which has - and _ in place of + and /."""
    usual = from_padded_base64(text)
    return from_padded_base64(text.translate({45: "+", 95: "/"})) if usual is None else usual
