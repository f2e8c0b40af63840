"""SQL Server's own columns of a `_CT` table, found by name. Any of them may be missing."""

from __future__ import annotations

import re
from base64 import b64decode
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.config.feed import Feed
from changeledger.dialects.tables import instants
from changeledger.dialects.tables.interface import Hidden
from changeledger.dialects.tables.rows import RawRows, Read, records
from changeledger.kernels import lsn, masks
from changeledger.kernels.arrow import INSTANT, Bools, Bytes, fixed_width, valid
from changeledger.kernels.cast_text import as_text
from changeledger.kernels.lsn import Lsns
from changeledger.mask_order.mask_evidence import MaskRules
from changeledger.model.contract import Contract

START_LSN = "__$start_lsn"
SEQVAL = "__$seqval"
OPERATION = "__$operation"
UPDATE_MASK = "__$update_mask"
COMMAND_ID = "__$command_id"
# From cdc.lsn_time_mapping, joined by the query that reads the rows.
COMMIT_TIME = "__$commit_time"
# The pass of a repeated hour in which that was: 0 or 1 (`clock.FallBack`).
COMMIT_FOLD = "__$commit_fold"
# 10 bytes in base64, as exports write binary columns.
_BASE64_LSN = re.compile(r"(?=.{16}\Z)[A-Za-z0-9+/]+={0,2}\Z")


@dataclass(frozen=True)
class Header:
    """The header of n rows. A value that is missing or unreadable is 0 or not `known`."""

    start_lsn: Lsns
    seqval: Lsns
    command_id: npt.NDArray[np.int64]
    # Rows with a command id that is not a number.
    broken_command: Bools
    code: npt.NDArray[np.int64]
    mask: pa.BinaryArray
    committed_at: pa.TimestampArray
    # Rows whose `committed_at` is doubtful, by the server's clock.
    is_suspect: Bools

    @classmethod
    def of(cls, rows: RawRows, feed: Feed) -> Header:
        command_id, broken = rows.whole(COMMAND_ID)
        code, _ = rows.whole(OPERATION)
        start, seqval = (lsn.of_bytes(lsn_bytes(rows, name)) for name in (START_LSN, SEQVAL))
        mask = rows.first(UPDATE_MASK, _mask, pa.binary())
        return cls(start, seqval, command_id, broken, code, mask, *_committed(rows, feed))

    def position(self) -> Bytes:
        """Returns n x 24 bytes: start_lsn, command_id, seqval. The order of bytes is that of the source."""
        command = self.command_id.astype(">u4").view(np.uint8).reshape(-1, 4)
        return np.hstack([self.start_lsn.digits, command, self.seqval.digits])


def record(raw: pa.RecordBatch, instance: str, _feed: Feed, _hidden: Hidden) -> pa.StructArray:
    """Returns positions: the change table, and (start_lsn, command_id, seqval, operation) as bytes."""
    rows = RawRows.of(raw)
    parts = [
        pc.fill_null(lsn_bytes(rows, START_LSN), b""),
        _cut(rows.whole(COMMAND_ID)[0], 4),
        pc.fill_null(lsn_bytes(rows, SEQVAL), b""),
        _cut(rows.whole(OPERATION)[0], 1),
    ]
    place = pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary()))
    return records(f"{instance}_CT", place)


def _cut(values: npt.NDArray[np.int64], width: int) -> pa.BinaryArray:
    """Encodes numbers in `width` bytes. One that does not fit keeps its first bytes, as ledgers have it."""
    if ((values >= 0) & (values < 256**width)).all():
        last_bytes = values.astype(">i8").view(np.uint8).reshape(-1, 8)[:, 8 - width :]
        return fixed_width(last_bytes)
    digits = (f"{int(value) % 2**64:0{2 * width}X}"[: 2 * width] for value in values)
    return pa.array([bytes.fromhex(hex_digits) for hex_digits in digits], pa.binary())


def lsn_bytes(rows: RawRows, name: str) -> pa.BinaryArray:
    """Reads LSNs from bytes (of any width) or from an export's text: 0x and hex, bare hex, 8:8:4, base64."""

    def read(column: Read) -> pa.BinaryArray:
        return column.values if column.kind == "binary" else _of_texts(as_text(column.values))

    return rows.first(name, read, pa.binary())


def _of_texts(texts: pa.StringArray) -> pa.BinaryArray:
    lsns = lsn.parse_all(texts)
    rest = np.flatnonzero(~lsns.known & valid(texts))
    if not len(rest):
        return lsns.array()
    values = lsns.array().to_pylist()
    for row in rest:
        text = texts[int(row)].as_py()
        values[row] = b64decode(text) if _BASE64_LSN.match(text) else None
    return pa.array(values, pa.binary())


def _mask(column: Read) -> pa.BinaryArray:
    """Reads masks from bytes, or from an export's hex text, with or without 0x."""
    return column.values if column.kind == "binary" else masks.from_texts(as_text(column.values))


def _committed(rows: RawRows, feed: Feed) -> tuple[pa.TimestampArray, Bools]:
    """Returns the commit times, and which of them are doubtful.

    The source has the server's local times, without a zone. An export may write an offset beside a time: it
    counts unless it is zero. A `Z` does not count, because tools write it beside local times, too. A time is
    doubtful if either contradicts the feed's zone.
    """
    fold, _ = rows.whole(COMMIT_FOLD, otherwise=instants.NO_FOLD)
    is_doubtful = np.zeros(rows.size, np.bool_)

    def read(column: Read) -> pa.TimestampArray:
        local, has_time = instants.read(column, in_zone=False)
        utc, doubtful = instants.to_utc(local, feed.time_zone, fold)
        utc, doubtful = _by_offsets(column, local, utc, doubtful, feed.time_zone)
        np.logical_or(is_doubtful, doubtful & has_time, out=is_doubtful)
        return instants.known(utc, has_time)

    return rows.first(COMMIT_TIME, read, INSTANT), is_doubtful


def _by_offsets(
    column: Read, local: instants.Micros, utc: instants.Micros, doubtful: Bools, zone: str
) -> tuple[instants.Micros, Bools]:
    """Corrects `utc` and `doubtful` by the zones that texts name beside the local times."""
    stated, names_zone = instants.in_zones(column)
    if not names_zone.any():
        return utc, doubtful
    counts = names_zone & (stated != local)
    passes = [instants.to_utc(local, zone, np.full(len(local), fold))[0] for fold in (0, 1)]
    agrees = (stated == passes[0]) | (stated == passes[1])
    contradicted = names_zone & (utc != stated)
    return np.where(counts, stated, utc), np.where(counts, ~agrees, doubtful | contradicted)


def mask_rules(_raw: pa.Schema, _feed: Feed, _writer_schema: Contract) -> MaskRules:
    """Inserts and deletes set the bits of all columns."""
    return MaskRules("all")
