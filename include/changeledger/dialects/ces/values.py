"""The text of a CES cell as a value of its type.

Every value is text; how bit, float and binary are written is not published, so all plausible forms are
read: `0/1/true/false`, any decimal text of a float, `0x` hex or base64.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import binary_text, sql_text, text_cells
from changeledger.kernels.arrow import Bools
from changeledger.kernels.cells import FromTexts
from changeledger.kernels.sql_text import Reader
from changeledger.model.contract import Column
from changeledger.model.sql_type import SqlType

_NUMBER = re.compile(r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?\Z")
_BITS = {"1": True, "true": True, "0": False, "false": False}
# The producer cuts a value above 1 MB to 1 MB before it writes the event. Which megabyte, and of which
# encoding, is not published: a size just below either of them is taken for a cut one.
_MEGABYTES = (1_000_000, 1_048_576)
# A cut may fall inside a character, and then leaves up to three bytes less.
_SHORT_BY = 3
# No text of fewer bytes of UTF-8 can be one megabyte in any encoding (four bytes a character).
_FEWEST = (_MEGABYTES[0] - _SHORT_BY) // 4


class Cell(NamedTuple):
    """How one column is read."""

    # A column of texts.
    convert: FromTexts
    # Which of its texts the producer has cut; None if values are never so large.
    cuts: Callable[[pa.StringArray], Bools | None] | None


def cell_of(column: Column, encoding: str) -> Cell:
    """`encoding`: how binary values are written: `hex`, `base64`, or `any` of both."""
    sql = column.sql_type
    read = reader(sql, encoding)
    convert = text_cells.from_texts(sql, read)
    return Cell(convert, (lambda texts: _cuts(texts, sql, encoding)) if sql.is_large else None)


def reader(sql: SqlType, encoding: str) -> Reader:
    """The value of one text."""
    if sql.base == "hierarchyid" and encoding == "any":
        # `/12/` is a path, and base64 as well.
        return lambda text: None if text.startswith("/") and text.endswith("/") else binary(text, encoding)
    if sql.spark == "binary":
        return binary_text.of_size(sql, lambda text: binary(text, encoding))
    if sql.base == "bit":
        return lambda text: _BITS.get(text.lower())
    read = sql_text.reader(sql)
    if sql.base in {"real", "float"} or sql.spark.startswith("decimal"):
        # Without the white space and the letters that a cast takes.
        return lambda text: read(text) if _NUMBER.match(text) else None
    return read


def binary(text: str, encoding: str) -> bytes | None:
    decoded = binary_text.from_hex(text[2:]) if text[:2].lower() == "0x" else None
    if encoding == "hex" or (decoded is not None and encoding == "any"):
        return decoded
    if encoding == "any" and binary_text.is_likely_hex(text):
        return None
    return binary_text.from_padded_base64(text)


def _cuts(texts: pa.StringArray, sql: SqlType, encoding: str) -> Bools | None:
    """Which texts are those of values that the producer has cut; None if none is."""
    sizes = pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(sizes >= _FEWEST)
    if not len(rows):
        return None
    cuts = np.zeros(len(texts), np.bool_)
    cuts[rows] = [is_cut(texts[int(row)].as_py(), sql, encoding) for row in rows]
    return cuts


def is_cut(text: str, sql: SqlType, encoding: str) -> bool:
    if len(text) < _FEWEST:
        return False
    if sql.spark == "binary":
        sizes = [len(binary(text, encoding) or b"")]
    elif sql.base in {"varchar", "text"}:
        # One byte a character in most code pages, up to four in UTF-8.
        sizes = [len(text.encode()), len(text)]
    else:
        sizes = [len(text.encode()), len(text.encode("utf-16-le"))]
    return any(most - _SHORT_BY <= size <= most for size in sizes for most in _MEGABYTES)
