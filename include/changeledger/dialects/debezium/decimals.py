"""Reads cells of decimals: base64 of an unscaled number, text, or a JSON number.

Text and the number of a Connect Decimal are exact. A double (`decimal.handling.mode: double`) keeps any 15
digits; a number with more digits may have been rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.config.sources import DebeziumSource
from changeledger.dialects.debezium.fields import DECIMAL, Field
from changeledger.kernels import cells, sql_text, text_cells
from changeledger.kernels.arrow import arrow_type
from changeledger.kernels.binary_text import from_padded_base64
from changeledger.kernels.cells import Cells
from changeledger.kernels.sql_text import Reader
from changeledger.model.sql_type import SqlType

# Digits that a double keeps, whatever they are.
_EXACT_DIGITS = 15
_LONGEST_SCALE = 38


class Form(NamedTuple):
    """How a decimal is written. `scale`: the scale of its bytes."""

    is_bytes: bool
    scale: int
    # Which JSON numbers are exact: all, those of at most 15 digits (`short`), or also those with as many
    # places as the type, as `decimal.format: NUMERIC` writes each (`scaled`).
    numbers: Literal["all", "scaled", "short"]
    # The lake's type, with precision and scale.
    kind: pa.DataType


def form(sql: SqlType, source: DebeziumSource, field: Field | None) -> Form:
    """Returns how the schema block, or without one the connector's mode, says that a decimal is written.

    The block must not contradict the type.
    """
    kind = arrow_type(sql.spark)
    if field is not None and field.name == DECIMAL and field.scale is not None:
        return Form(True, field.scale, "all", kind)
    if field is not None:
        return Form(False, kind.scale, "all" if field.kind.startswith("int") else "short", kind)
    is_precise = source.decimal_handling_mode == "precise"
    return Form(is_precise, kind.scale, "scaled" if is_precise else "short", kind)


def reader(how: Form) -> Reader:
    """Returns the reader of a JSON text."""
    precision, scale = how.kind.precision, how.kind.scale
    if how.is_bytes:
        return lambda text: _encoded(text, how.scale, precision, scale)
    return lambda text: sql_text.decimal(text, precision, scale)


def number_reader(sql: SqlType, how: Form) -> Reader:
    """Returns the reader of a JSON number, which gives None also for a number that is not exact."""
    read = sql_text.reader(sql)
    return lambda text: None if is_inexact(text, how) else read(text)


def is_inexact(text: str, how: Form) -> bool:
    """Returns whether the number may have lost digits as a double."""
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, places = mantissa.lstrip("-").partition(".")
    if how.numbers == "all" or len(f"{whole}{places}".strip("0")) <= _EXACT_DIGITS:
        return False
    return how.numbers == "short" or exponent != "" or len(places) != how.scale


def most_bytes(precision: int) -> int:
    return 8 if precision <= 18 else 17


def _encoded(text: str, written_scale: int, precision: int, scale: int) -> Decimal | None:
    """Reads base64 of an unscaled number, a big-endian two's complement."""
    digits = from_padded_base64(text)
    if not digits or len(digits) > most_bytes(precision if written_scale == scale else _LONGEST_SCALE):
        return None
    number = sql_text.of_unscaled(int.from_bytes(digits, "big", signed=True), _LONGEST_SCALE, written_scale)
    return None if number is None else sql_text.scaled(number, precision, scale)


def of_bytes(how: Form) -> Callable[[Sequence[Any]], Cells]:
    """Returns the converter of columns of base64 texts."""
    precision, scale = how.kind.precision, how.kind.scale
    if how.scale == scale:
        return lambda values: cells.from_base64_decimals(
            cells.texts(values), precision, scale, most_bytes(precision)
        )
    one_by_one = cells.one_by_one(reader(how), how.kind)
    return lambda values: one_by_one(cells.texts(values))


def of_tokens(sql: SqlType, how: Form) -> Callable[[Sequence[Any]], Cells]:
    """Returns the converter of columns of JSON tokens, numbers or texts.

    A column with a token in an unusual form is read one by one.
    """
    plain = text_cells.decimal_pattern(how.kind)
    of_text, of_number = reader(how), number_reader(sql, how)
    one_by_one = cells.one_by_one(lambda token: _of_token(token, of_text, of_number), how.kind)

    def convert(values: Sequence[Any]) -> Cells:
        tokens = pa.array([None if value is None else bytes(value) for value in values], pa.string())
        tokens = pc.if_else(pc.equal(tokens, "null"), pa.scalar(None, pa.string()), tokens)
        texts = pc.utf8_trim(tokens, characters='"')
        # Text of any length is exact, a number only up to this length.
        exact = pc.or_(pc.starts_with(tokens, '"'), pc.less_equal(pc.binary_length(texts), _EXACT_DIGITS))
        usual = pc.and_(pc.match_substring_regex(texts, plain), exact)
        if pc.all(usual).as_py() is not False:
            try:
                return Cells(pc.cast(texts, how.kind))
            except pa.ArrowInvalid:
                pass
        return one_by_one(tokens)

    return convert


def _of_token(token: str, of_text: Reader, of_number: Reader) -> Any:
    if token[:1] != '"':
        return of_number(token)
    # A text with an escape is left to the reader of a single record.
    return None if "\\" in token else of_text(token[1:-1])
