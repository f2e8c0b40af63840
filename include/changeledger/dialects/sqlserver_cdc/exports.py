"""Decodes exports that write all binary columns, not only LSNs, in base64, as Spark's `to_json` does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from changeledger.dialects.sqlserver_cdc.header import START_LSN
from changeledger.dialects.tables.rows import RawRows, Read
from changeledger.kernels import lsn
from changeledger.kernels.arrow import Bools, valid
from changeledger.kernels.binary_text import from_padded_base64


def in_hex(rows: RawRows, names: Iterable[str]) -> RawRows:
    """Returns the rows with the texts of these binary columns in hex, as other exports write them.

    A row's texts are base64 if its commit LSN is. A text that begins with 0x is hex all the same. Only the 0x
    shows it, because hex digits are base64 digits, too.
    """
    is_base64 = _are_in_base64(rows)
    if not is_base64.any():
        return rows
    reads = {n.lower(): [_in_hex(read, is_base64) for read in rows.read(n)] for n in names if rows.has(n)}
    return replace(rows, reads={**rows.reads, **reads})


def _are_in_base64(rows: RawRows) -> Bools:
    is_base64 = np.zeros(rows.size, np.bool_)
    for kind, texts in rows.read(START_LSN):
        if kind == "string":
            # A row whose LSN is not base64 either is quarantined.
            is_base64 |= valid(texts) & ~lsn.parse_all(texts).known
    return is_base64


def _in_hex(read: Read, is_base64: Bools) -> Read:
    if read.kind != "string":
        return read
    texts = read.values.to_pylist()
    for row in np.flatnonzero(is_base64 & valid(read.values)):
        text = texts[row]
        if text[:2].lower() != "0x":
            value = from_padded_base64(text)
            # Text that is not base64 must not pass for hex.
            texts[row] = f"not base64: {text}" if value is None else f"0x{value.hex()}"
    return read._replace(values=pa.array(texts, pa.string()))
