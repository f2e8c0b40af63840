"""Formats rows as JSON, character by character as Spark's `to_json` does.

A row without a position of its own is identified by a hash of this text, which ledgers hold. The quarantine
shows the text. NULL cells are left out, and times have three digits of a second.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import octets
from changeledger.kernels.arrow import Bytes, fixed_width, places
from changeledger.kernels.cast_text import as_text

_ESCAPED = r'["\\\x00-\x1f]'
_ESCAPE = re.compile(r"\\(u00[0-9a-f]{2}|.)")
_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)


def rows(columns: Mapping[str, pa.Array], size: int) -> pa.StringArray:
    """Returns one JSON object per row."""
    if not columns:
        return pa.array(["{}"] * size, pa.string())
    # The first member has no comma before it. If the first column has NULLs, which one is first differs by
    # row.
    names = list(columns)
    is_plain = not columns[names[0]].null_count
    begins = ["{" if is_plain else ",", *[","] * (len(names) - 1)]
    starts = [f"{begin}{quoted(name)}:" for begin, name in zip(begins, names, strict=True)]
    members = [_member(start, columns[name]) for start, name in zip(starts, names, strict=True)]
    objects = pc.binary_join_element_wise(*members, "}", "", null_handling="replace", null_replacement="")
    return objects if is_plain else pc.replace_substring_regex(objects, "^,?", "{")


def _member(start: str, values: pa.Array) -> pa.StringArray:  # noqa: PLR0911 - a form for each type
    """Returns `start`, which ends with the name, and the value of each row; NULL where the cell is NULL."""
    kind = values.type
    if pa.types.is_string(kind):
        if pc.any(pc.match_substring_regex(values, _ESCAPED)).as_py():
            written = pa.array([None if v is None else quoted(v) for v in values.to_pylist()], pa.string())
            return pc.binary_join_element_wise(start, written, "")
        return _in_quotes(start, values)
    if pa.types.is_binary(kind):
        return _in_quotes(start, _base64(values))
    if pa.types.is_timestamp(kind):
        return _in_quotes(start, _times(values))
    if pa.types.is_decimal(kind):
        return pc.binary_join_element_wise(start, pc.cast(values, pa.string()), "")
    cell_texts = as_text(values)
    plain = pc.binary_join_element_wise(start, cell_texts, "")
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_finite(values), plain, _in_quotes(start, cell_texts))
    return _in_quotes(start, cell_texts) if pa.types.is_date(kind) else plain


def _in_quotes(start: str, values: pa.StringArray) -> pa.StringArray:
    return pc.binary_join_element_wise(start + '"', values, '"', "")


def _times(values: pa.Array) -> pa.StringArray:
    """Formats as `2026-08-07T16:25:00.883`, without the last three of six digits of a second."""
    naive = pc.cast(values.view(pa.int64()).view(pa.timestamp("us")), pa.string())
    day, clock = pc.utf8_slice_codeunits(naive, 0, 10), pc.utf8_slice_codeunits(naive, 11, 23)
    return pc.binary_join_element_wise(day, "T", clock, "" if values.type.tz is None else "Z", "")


def _base64(values: pa.BinaryArray) -> pa.StringArray:
    """Encodes all values of one length at a time: nearly all are LSNs and masks."""
    lengths = octets.lengths(values)
    encoded = pa.nulls(len(values), pa.string())
    known = values.is_valid().to_numpy(zero_copy_only=False)
    for length in np.unique(lengths[known]):
        mine = np.flatnonzero(known & (lengths == length))
        data = octets.matrix(values.take(pa.array(mine)), int(length))
        letters = fixed_width(_letters(data), kind=pa.string()) if length else pa.array([""] * len(mine))
        if len(mine) == len(values):
            return letters
        encoded = pc.coalesce(encoded, letters.take(places(mine, len(values))))
    return encoded


def _letters(data: Bytes) -> Bytes:
    """Encodes n x width bytes as letters of base64, padded with `=` to a multiple of four."""
    lacking = -data.shape[1] % 3
    padded = np.pad(data, ((0, 0), (0, lacking)))
    a, b, c = (padded[:, at::3] for at in range(3))
    letters = np.empty((len(data), padded.shape[1] // 3 * 4), np.uint8)
    letters[:, ::4], letters[:, 1::4] = _BASE64[a >> 2], _BASE64[(a & 3) << 4 | b >> 4]
    letters[:, 2::4], letters[:, 3::4] = _BASE64[(b & 15) << 2 | c >> 6], _BASE64[c & 63]
    letters[:, letters.shape[1] - lacking :] = ord("=")
    return letters


def quoted(text: str) -> str:
    """Quotes a text as Jackson does: control characters as `\\u001F`, all others as they are."""
    written = json.dumps(text, ensure_ascii=False)
    if r"\u" not in written:
        return written
    return _ESCAPE.sub(lambda match: r"\u" + match[1][1:].upper() if match[1][1:] else match[0], written)
