"""Formats cells and keys for people, as Spark's CAST and `to_json` do. It may be slow: findings are few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from changeledger.kernels import cast_text, json_rows
from changeledger.kernels.arrow import GAPS, NAMES, Bools, Bytes
from changeledger.model.change import NOT_CAPTURED, UNAVAILABLE
from changeledger.model.contract import Contract

# Indexed by the state of a cell (`kernels.cells`).
_WORDS = (None, f"({UNAVAILABLE})", f"({NOT_CAPTURED})")
_NULL = "NULL"
# Texts of a source that look like NULL or one of these words.
_LIKE_WORDS = frozenset({_NULL, *_WORDS[1:]})


def images_as_texts(
    cells: Sequence[pa.Array], states: Bytes | None, present: Bools, contract: Contract
) -> pa.MapArray:
    """Returns map<column, text> of each image; NULL without an image.

    An unknown cell is its word in brackets.
    """
    rows = [
        None if texts is None else list(zip(contract.names, texts, strict=True))
        for texts in lists_of_texts(cells, states, present).to_pylist()
    ]
    return pa.array(rows, GAPS)


def lists_of_texts(cells: Sequence[pa.Array], states: Bytes | None, present: Bools) -> pa.ListArray:
    """Returns array<text> of each image; NULL without an image.

    An unknown cell is its word in brackets. A source's text `NULL` is quoted, and NULL is not, because a cell
    may be shown with both values side by side.
    """
    columns = [texts(cell).to_pylist() for cell in cells]
    unknown = np.zeros((len(present), len(cells)), np.uint8) if states is None else states
    for column, column_texts in enumerate(columns):
        words = [_WORDS[state] or _NULL for state in unknown[:, column]]
        columns[column] = [
            word if text is None else told_apart(text) for text, word in zip(column_texts, words, strict=True)
        ]
    rows = zip(*columns, strict=True)
    return pa.array(
        [list(row) if is_present else None for row, is_present in zip(rows, present.tolist(), strict=True)],
        NAMES,
    )


def told_apart(text: str) -> str:
    """Quotes a source's text that looks like NULL or like the word for an unknown cell."""
    return f"'{text}'" if text in _LIKE_WORDS else text


def texts(cells: pa.Array) -> pa.StringArray:
    """Formats each cell as text; NULL stays NULL."""
    if pa.types.is_string(cells.type):
        return cells
    encoded = cells.dictionary_encode()
    return cast_text.shown(encoded.dictionary).take(encoded.indices)


def text_of(value: Any) -> str:
    """Formats a value as Spark's CAST to STRING does in ANSI mode and UTC, but a binary as 0x and hex."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return f"0x{value.hex().upper()}"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float):
        return cast_text.double(value)
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(" ", "microseconds")
        return text.rstrip("0").rstrip(".")
    return value.isoformat() if isinstance(value, date) else str(value)


def place(record: Mapping[str, Any] | None) -> str:
    """Formats the position of a raw record."""
    if record is None:
        return "-"
    if record["row"] is not None:
        return f"{record['source']} {bytes(record['row']).hex()}"
    return f"{record['source']}[{record['partition']}] {record['offset']}"


def keys_as_json(key: Mapping[str, pa.Array]) -> list[str]:
    """Formats each row's key as a JSON object without spaces."""
    rows = len(next(iter(key.values()), ()))
    texts_of_keys: list[str] = json_rows.rows(key, rows).to_pylist()
    return texts_of_keys
