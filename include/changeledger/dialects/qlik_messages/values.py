"""Reads cells of Qlik's messages: numbers native or as text, binary as hex digits, ISO times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, UnsetType

from changeledger.kernels import cells, text_cells
from changeledger.kernels.arrow import arrow_type
from changeledger.kernels.binary_text import from_hex, of_size, without_0x
from changeledger.kernels.cells import Cells, FromTexts
from changeledger.kernels.json_text import text as text_of
from changeledger.kernels.sql_text import Reader
from changeledger.model.contract import Column
from changeledger.model.sql_type import SqlType

_UNUSUAL = (pa.ArrowException, TypeError, OverflowError)


class Cell(NamedTuple):
    """How one column is read."""

    # The type that msgspec accepts; anything else is unusual.
    wire: Any
    # Converts a column of msgspec's values, None for null.
    convert: Callable[[Sequence[Any]], Cells]
    # Whether values are tokens, as they are written.
    is_raw: bool


def cell_of(column: Column) -> Cell:
    sql = column.sql_type
    from_texts = text_cells.from_texts(sql, reader(sql))
    kind = arrow_type(sql.spark)
    if sql.spark.startswith("decimal"):

        def of_tokens(tokens: Sequence[msgspec.Raw | None]) -> Cells:
            return from_texts(_texts([None if token is None else text_of(token) for token in tokens]))

        return Cell(msgspec.Raw | UnsetType, of_tokens, is_raw=True)
    if sql.spark in {"smallint", "int", "bigint"}:
        narrow = pa.uint8() if sql.base == "tinyint" else kind

        def whole(values: Sequence[Any]) -> pa.Array:
            whole_numbers = pa.array(values, narrow)
            return whole_numbers if narrow == kind else pc.cast(whole_numbers, kind)

        return Cell(int | str | None | UnsetType, _native(whole, from_texts), is_raw=False)
    native = _native(lambda values: pa.array(values, kind), from_texts)
    if sql.base == "bit":
        return Cell(bool | int | str | None | UnsetType, native, is_raw=False)
    if sql.base in {"float", "real"}:
        # Arrow refuses a whole number with more digits than a float keeps.
        numbers = native if sql.base == "float" else _native(_reals, from_texts)
        return Cell(int | float | str | None | UnsetType, numbers, is_raw=False)
    return Cell(str | None | UnsetType, lambda values: from_texts(_texts(values)), is_raw=False)


def _native(convert: Callable[[Sequence[Any]], pa.Array], from_texts: FromTexts) -> Any:
    """Converts values of the type itself at once; if one is a text or does not fit, all by their texts."""

    def either(values: Sequence[Any]) -> Cells:
        try:
            return Cells(convert(values))
        except _UNUSUAL:
            return from_texts(_texts([None if value is None else _text(value) for value in values]))

    return either


def _reals(values: Sequence[Any]) -> pa.Array:
    """Converts numbers to `real`. Raises ArrowInvalid if one is too large or rounded: the texts decide."""
    real_cells = cells.reals(values)
    if real_cells.unfit is not None:
        raise pa.ArrowInvalid("a number is no `real`")
    return real_cells.values


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _texts(values: Sequence[str | None]) -> pa.StringArray:
    return pa.array(values, pa.string())


def is_null(value: Any) -> bool:
    """Returns whether a cell is null or missing."""
    return value is None or value is UNSET or (isinstance(value, msgspec.Raw) and bytes(value) == b"null")


def reader(sql: SqlType) -> Reader:
    """Returns a function that reads the value of one text."""
    if sql.spark == "binary":
        # Bytes, unlike masks, keep their zeros: an odd number of digits has lost one.
        return of_size(sql, lambda text: from_hex(without_0x(text)))
    return text_cells.lenient_reader(sql)
