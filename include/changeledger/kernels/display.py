"""Cells and keys as texts for people, as Spark's CAST and `to_json` write them: findings are few."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from changeledger.kernels.arrow import GAPS, NAMES, Bools, Bytes
from changeledger.model.change import NOT_CAPTURED, UNAVAILABLE
from changeledger.model.contract import Contract

_LEAST, _MOST = 1e-3, 1e7
# By the state of a cell (`kernels.cells`).
_WORDS = (None, f"({UNAVAILABLE})", f"({NOT_CAPTURED})")


def images_as_texts(
    cells: Sequence[pa.Array], states: Bytes | None, present: Bools, contract: Contract
) -> pa.MapArray:
    """map<column, text> of each image, an unknown cell as the word in brackets; NULL for no image."""
    rows = [
        None if texts is None else list(zip(contract.names, texts, strict=True))
        for texts in lists_of_texts(cells, states, present).to_pylist()
    ]
    return pa.array(rows, GAPS)


def lists_of_texts(cells: Sequence[pa.Array], states: Bytes | None, present: Bools) -> pa.ListArray:
    """array<text> of each image, an unknown cell as the word in brackets; NULL for no image."""
    columns = [texts(cell).to_pylist() for cell in cells]
    unknown = np.zeros((len(present), len(cells)), np.uint8) if states is None else states
    for column, column_texts in enumerate(columns):
        words = [_WORDS[state] or "NULL" for state in unknown[:, column]]
        columns[column] = [
            word if text is None else text for text, word in zip(column_texts, words, strict=True)
        ]
    rows = zip(*columns, strict=True)
    return pa.array(
        [list(row) if is_present else None for row, is_present in zip(rows, present.tolist(), strict=True)],
        NAMES,
    )


def _values(cells: pa.Array) -> list[Any]:
    """A 32-bit number as the shortest text has it, not as the 64-bit number that is equal to it."""
    values: list[Any] = cells.to_pylist()
    if not pa.types.is_float32(cells.type):
        return values
    return [None if v is None else float(str(np.float32(v))) for v in values]


def texts(cells: pa.Array) -> pa.StringArray:
    """Each cell as text; NULL for NULL."""
    if pa.types.is_string(cells.type):
        return cells
    encoded = cells.dictionary_encode()
    written = [text_of(v) for v in _values(encoded.dictionary)]
    return pa.array(written, pa.string()).take(encoded.indices)


def text_of(value: Any) -> str:
    """Source: Spark's CAST to STRING, in ANSI mode and UTC; a binary as 0x and hex."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return f"0x{value.hex().upper()}"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float):
        return _java(value)
    if isinstance(value, datetime):
        return _clock(value, " ")
    return value.isoformat() if isinstance(value, date) else str(value)


def place(record: Mapping[str, Any] | None) -> str:
    """Where a raw record stands in its source."""
    if record is None:
        return "-"
    if record["row"] is not None:
        return f"{record['source']} {bytes(record['row']).hex()}"
    return f"{record['source']}[{record['partition']}] {record['offset']}"


def _java(value: float) -> str:
    """As Java writes a double: with an exponent below 0.001 and from ten million on."""
    if value == 0 or _LEAST <= abs(value) < _MOST:
        plain = f"{Decimal(repr(value)):f}"
        return plain if "." in plain else f"{plain}.0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    first, *rest = map(str, digits)
    power = int(exponent) + len(rest)
    return f"{'-' if sign else ''}{first}.{''.join(rest) or '0'}E{power}"


def _clock(value: datetime, separator: str) -> str:
    text = value.replace(tzinfo=None).isoformat(separator, "microseconds")
    return text.rstrip("0").rstrip(".")


def keys_as_json(key: Mapping[str, pa.Array]) -> list[str]:
    """Of each row, its key as a JSON object without spaces."""
    columns = [[(name, _json(v)) for v in _values(cells)] for name, cells in key.items()]
    return [
        "{" + ",".join(f"{_quoted(name)}:{text}" for name, text in row if text is not None) + "}"
        for row in zip(*columns, strict=True)
    ]


def _json(value: Any) -> str | None:
    """A member's value; None: `to_json` leaves it out."""
    writers: tuple[tuple[type, Callable[[Any], str]], ...] = (
        (bool, text_of),
        (bytes, lambda v: _quoted(base64.b64encode(v).decode())),
        (datetime, _timestamp),
        (date, lambda v: _quoted(v.isoformat())),
        (str, _quoted),
        (Decimal, str),
        (object, text_of),
    )
    if value is None:
        return None
    return next(write for kind, write in writers if isinstance(value, kind))(value)


def _timestamp(value: datetime) -> str:
    """To the millisecond, as `to_json` does when nothing else is asked of it."""
    text = value.replace(tzinfo=None).isoformat("T", "milliseconds")
    return _quoted(text + ("Z" if value.tzinfo is not None else ""))


def _quoted(text: str) -> str:
    """Source: Jackson escapes no more than JSON demands."""
    return json.dumps(text, ensure_ascii=False)
