"""Converts the images of events from rows of texts to typed cells, each known, NULL, or a gap."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET

from changeledger.config.sources import CesSource
from changeledger.dialects.ces.columns import names_in
from changeledger.dialects.ces.events import Event, layout_of
from changeledger.dialects.plan import TablePlan
from changeledger.kernels import binary_text, sql_text, text_cells
from changeledger.kernels.arrow import Bools, Bytes, places
from changeledger.kernels.cells import NOT_CAPTURED, UNAVAILABLE, FromTexts
from changeledger.kernels.images import Image, without_nulls
from changeledger.kernels.sql_text import Reader
from changeledger.model.column_names import folded
from changeledger.model.contract import Contract
from changeledger.model.sql_type import SqlType

# The forms of bit, float and binary are not published, so all plausible ones are read: `0/1/true/false`, any
# decimal text of a float, `0x` hex or base64.
_NUMBER = re.compile(r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?\Z")
_BITS = {"1": True, "true": True, "0": False, "false": False}
# The producer cuts a value above 1 MB to 1 MB before it writes the event. Which megabyte that is, and in
# which encoding, is not published: a value whose size is just below either is taken for a cut one.
_MEGABYTES = (1_000_000, 1_048_576)
# A cut may fall inside a character, and then leaves up to three bytes less.
_SHORT_BY = 3
# No text of fewer bytes of UTF-8 can be one megabyte in any encoding (four bytes a character).
_FEWEST = (_MEGABYTES[0] - _SHORT_BY) // 4


class Side(NamedTuple):
    """One image of n events, and its states. `unfit` (n x columns) marks values that are not of the type."""

    image: Image
    states: Bytes
    unfit: Bools
    # Whether the image has a value that the producer has cut.
    is_cut: Bools


class _Cell(NamedTuple):
    """How one column is read."""

    # Returns its text in a row.
    text: attrgetter[Any]
    # Converts a column of texts.
    convert: FromTexts
    # Returns which of its texts the producer has cut; None if values are never that large.
    cuts: Callable[[pa.StringArray], Bools | None] | None


@lru_cache(maxsize=64)
def _cells(plan: TablePlan) -> Sequence[_Cell]:
    source, columns = plan.feed.source, plan.writer_schema.columns
    assert isinstance(source, CesSource), "config binds a dialect to its source"
    return [
        _cell(attrgetter(field), column.sql_type, source.binary_encoding)
        for column, field in zip(columns, layout_of(plan.writer_schema).fields, strict=True)
    ]


def _cell(text: attrgetter[Any], sql: SqlType, encoding: str) -> _Cell:
    """Returns how to read a column. Binary values have the `encoding` `hex`, `base64`, or `any` of both."""
    convert = text_cells.from_texts(sql, reader(sql, encoding))
    return _Cell(text, convert, (lambda texts: _cuts(texts, sql, encoding)) if sql.is_large else None)


def side(rows: Sequence[Any], plan: TablePlan) -> Side:
    """Converts rows (`events.ImageLayout.row`), which are None for events that do not have the image."""
    columns, size = _cells(plan), len(rows)
    part = [row for row in rows if row is not None]
    present = np.fromiter((row is not None for row in rows), np.bool_, size)
    at = np.flatnonzero(present)
    where = None if len(at) == size else places(at, size)
    states, unfit = np.zeros((size, len(columns)), np.uint8), np.zeros((size, len(columns)), np.bool_)
    is_cut, cells = np.zeros(size, np.bool_), []
    for number, column in enumerate(columns):
        texts, absent = _texts(list(map(column.text, part)))
        if absent is not None:
            states[at[absent], number] = NOT_CAPTURED
        cut = column.cuts and column.cuts(texts)
        if cut is not None:
            states[at[cut], number] = UNAVAILABLE
            is_cut[at[cut]] = True
            texts = pc.if_else(pa.array(cut), pa.scalar(None, pa.string()), texts)
        converted = column.convert(texts)
        if converted.unfit is not None:
            unfit[at[converted.unfit], number] = True
        cells.append(converted.values if where is None else converted.values.take(where))
    image = without_nulls(Image(present, cells, states if states.any() else None), plan.never_null)
    return Side(image, states if image.states is None else image.states, unfit, is_cut)


def _texts(values: list[Any]) -> tuple[pa.StringArray, Bools | None]:
    """Returns the texts of a column, and which of them were not sent (None if all were sent)."""
    try:
        return pa.array(values, pa.string()), None
    except (pa.ArrowException, TypeError):
        absent = np.fromiter((value is UNSET for value in values), np.bool_, len(values))
        return pa.array([None if value is UNSET else value for value in values], pa.string()), absent


def with_unsent(before: Side, after: Side, events: Sequence[Event], writer_schema: Contract) -> Side:
    """Marks old large values as not sent where they are NULL, or where only the old image lacks them.

    A stream group leaves old large values out unless `@include_old_lob_values` is set. No page says whether
    it then leaves out the member or writes NULL. A column that the message's own `cols` lack is not marked:
    the table did not have it yet, or the message says nothing about it.
    """
    has_old = np.array([event.has_old for event in events], np.bool_)
    large = np.flatnonzero(writer_schema.large)
    was_sent = (has_old & before.image.present)[:, None]
    in_after = ~after.image.present[:, None] | (after.states[:, large] != NOT_CAPTURED)
    unsent = (before.states[:, large] == NOT_CAPTURED) & in_after & was_sent
    rows = np.flatnonzero(unsent.any(axis=1)).tolist()
    # Most messages of a table have the same `cols`.
    existed = {cols: _may_have(cols, writer_schema)[large] for cols in {events[row].cols for row in rows}}
    for row in rows:
        unsent[row] &= existed[events[row].cols]
    if unsent.any():
        states: npt.NDArray[np.uint8] = before.states.copy()
        states[:, large] = np.where(unsent, UNAVAILABLE, states[:, large])
        before = before._replace(image=replace(before.image, states=states), states=states)
    image = without_nulls(before.image, large.tolist())
    return before._replace(image=image, states=before.states if image.states is None else image.states)


@lru_cache(maxsize=1024)
def _may_have(cols: bytes | None, writer_schema: Contract) -> Bools:
    """Returns which columns the table had according to a message's `cols`; all if it has none."""
    names = names_in(cols)
    return np.array([not names or folded(column.name) in names for column in writer_schema.columns], np.bool_)


def reader(sql: SqlType, encoding: str) -> Reader:
    """Returns a function that reads the value of one text."""
    if sql.base == "hierarchyid" and encoding == "any":
        # `/12/` is a path, but also valid base64.
        return lambda text: None if text.startswith("/") and text.endswith("/") else binary(text, encoding)
    if sql.spark == "binary":
        return binary_text.of_size(sql, lambda text: binary(text, encoding))
    if sql.base == "bit":
        return lambda text: _BITS.get(text.lower())
    read = sql_text.reader(sql)
    if sql.base in {"real", "float"} or sql.spark.startswith("decimal"):
        # A cast also accepts white space and letters.
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
    """Returns which texts are values that the producer has cut, or None if there are none."""
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
