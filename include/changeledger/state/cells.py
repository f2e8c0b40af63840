"""Converts cells of a row to text for people, with unknown apart from NULL, and typed text to values."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

from changeledger.kernels import cast_text, display
from changeledger.kernels.arrow import arrow_type
from changeledger.kernels.equality import form_of
from changeledger.model.contract import Column, Contract
from changeledger.model.errors import ConfigError

# Kinds of cells, in addition to those of unknown cells in `model.change`.
VALUE: Final = "value"
NULL: Final = "null"
# The change has no image, or the row does not exist.
ABSENT: Final = "absent"


class Cell(NamedTuple):
    """A cell. `text`: for people, None without a value. `raw`: the value itself, for comparing."""

    kind: str
    text: str | None = None
    raw: Any = None

    @property
    def is_known(self) -> bool:
        return self.kind in {VALUE, NULL}


NO_CELL: Final = Cell(ABSENT)


def image_cells(image: Mapping[str, Any] | None, unknown: Any, contract: Contract) -> dict[str, Cell]:
    """Returns the cells of an image by column; empty without an image. `unknown`: (column, state) pairs."""
    states = dict(unknown or ())
    of_32_bits = {column.name for column in contract.columns if column.spark_type == "float"}
    return {
        name: _cell(value, states.get(name), cast_text.float32 if name in of_32_bits else display.text_of)
        for name, value in (image or {}).items()
    }


def _cell(value: Any, state: str | None, text_of: Callable[[Any], str]) -> Cell:
    if state is not None:
        return Cell(state)
    return Cell(NULL) if value is None else Cell(VALUE, text_of(value), value)


def key_texts(key: Mapping[str, Any] | None) -> dict[str, str]:
    """Returns a key in the form that `typed` reads."""
    return {name: "" if value is None else display.text_of(value) for name, value in (key or {}).items()}


def key_texts_of_json(text: str | None, contract: Contract) -> dict[str, str] | None:
    """Converts a key that `kernels.display.keys_as_json` wrote to the form that `typed` reads.

    Returns None if the text is incomplete.
    """
    key = json.loads(text or "{}", parse_float=str, parse_int=str)
    texts = {}
    for column in contract.key:
        value, kind = key.get(column.name), arrow_type(column.spark_type)
        # Times are cut to milliseconds there.
        if value is None or pa.types.is_timestamp(kind):
            return None
        is_binary = pa.types.is_binary(kind)
        texts[column.name] = display.text_of(base64.b64decode(value) if is_binary else value)
    return texts


def typed(text: str, column: Column) -> Any:
    """Returns the value that a person has typed. Raises ConfigError if the column cannot hold it."""
    kind = arrow_type(column.spark_type)
    try:
        if pa.types.is_binary(kind):
            return bytes.fromhex(text.removeprefix("0x"))
        return pa.scalar(text).cast(kind).as_py()
    except (ValueError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ConfigError(
            # Without the text, because it may be a value that others must not see.
            f"{column.name} is {column.type}, but the value asked for is not of that type",
            "write it as the page shows values of this column",
        ) from None


def differ(first_cell: Cell, second_cell: Cell, columns: tuple[Column, Column]) -> bool:
    """Returns whether two known cells have different values, however each tool writes them.

    An unknown cell differs from nothing.
    """
    if not (first_cell.is_known and second_cell.is_known) or first_cell.raw == second_cell.raw:
        return False
    if NULL in {first_cell.kind, second_cell.kind}:
        return True
    value = form_of(*columns).value
    if value is None:
        return True
    cells = (
        value(pa.array([cell.raw], arrow_type(column.spark_type)))
        for cell, column in zip((first_cell, second_cell), columns, strict=True)
    )
    return len({cell[0].as_py() for cell in cells}) > 1
