"""Derives an event's position in its source's order, and the commit time of its change.

The commit time is `source.ts_ms`. Producers that do not know it write 0, or count in another unit and end up
in 1970. Then the message's own time stands in: the connector's `ts_ms`, else the time of the Kafka record.
A commit time later than that of the message is doubtful. So is the time of a snapshot row: SQL Server gives
the connector its local time (debezium/debezium#3855, airbytehq/airbyte#31447).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from changeledger.kernels import clocks, lsn
from changeledger.kernels.arrow import INSTANT, Bools, Bytes, equal, fixed_width, numbers, valid
from changeledger.kernels.lsn import Lsns

# In milliseconds.
_FIRST_KNOWN = clocks.FIRST_KNOWN // 1000
# SQL Server's own rank of changes at one position (delete 1, insert 2, update 4). A snapshot row comes last:
# it shows the state after everything at its position.
_RANKS = {"d": 1, "c": 2, "u": 4, "r": 5}


class Positions(NamedTuple):
    """Positions and commit times of n events."""

    commit_lsn: Lsns
    change_lsn: Lsns
    ordinal: pa.Int64Array
    sort_key: pa.BinaryArray
    committed_at: pa.TimestampArray
    # Whether the commit time is doubtful: taken from another clock, or later than the message.
    is_suspect: Bools
    is_snapshot: Bools

    @property
    def is_first(self) -> Bools:
        """Whether the change has no place in its transaction, so that it sorts before the others."""
        is_first: Bools = self.commit_lsn.known & ~self.is_snapshot & ~self.change_lsn.known
        return is_first


def positions(events: pa.RecordBatch, raw: pa.RecordBatch) -> Positions:
    """Returns the positions of events. `raw`: the message of each event, row by row."""
    wal = lsn.of_integers(events.column("wal"))
    commit, change = (_or(lsn.of_bytes(events.column(name)), wal) for name in ("commit_lsn", "change_lsn"))
    snapshot, op = _is_snapshot(events), events.column("op")
    committed_at, suspect = _committed(events, raw.column("timestamp"))
    ordinal = events.column("ordinal")
    rank = np.zeros((len(op), 1), np.uint8)
    for letter, number in _RANKS.items():
        rank[equal(op, letter)] = number
    key = np.hstack([*_place(commit, change, ordinal, snapshot, raw), rank])
    sort_key = fixed_width(key)
    # An incremental snapshot has the stream's change LSN; other snapshots have no place in a transaction.
    known = change.known & (~snapshot | equal(events.column("snapshot"), "incremental"))
    return Positions(commit, change._replace(known=known), ordinal, sort_key, committed_at, suspect, snapshot)


def _or(lsns: Lsns, other: Lsns) -> Lsns:
    return Lsns(np.where(lsns.known[:, None], lsns.digits, other.digits), lsns.known | other.known)


def _is_snapshot(events: pa.RecordBatch) -> Bools:
    """Returns which events are snapshot rows; an absent `snapshot` is false.

    Other producers write a snapshot row as an insert.
    """
    op, words = events.column("op"), events.column("snapshot")
    return equal(op, "r") | (equal(op, "c") & valid(words) & ~equal(words, "false"))


def _committed(events: pa.RecordBatch, received: pa.TimestampArray) -> tuple[pa.TimestampArray, Bools]:
    millis, sent = numbers(events.column("committed_ms")), events.column("sent_ms")
    is_unknown = millis < _FIRST_KNOWN
    sent_ms = np.where(valid(sent), numbers(sent), 0)
    of_record = np.where(valid(received), numbers(received), 0)
    seen = np.where(sent_ms >= _FIRST_KNOWN, sent_ms * 1000, of_record)
    micros = np.where(is_unknown, seen, millis * 1000)
    is_ahead = (seen > 0) & clocks.is_ahead(micros, seen)
    return pa.array(micros, pa.int64()).view(INSTANT), is_unknown | is_ahead


def _place(
    commit: Lsns, change: Lsns, ordinal: pa.Int64Array, snapshot: Bools, raw: pa.RecordBatch
) -> tuple[Any, ...]:
    """Returns 28 bytes per row in three parts: the position, or without one the order of delivery.

    Parts that a snapshot row does not state sort after everything at the stated part of its position. A row
    without any position is older than every change.
    """
    unknown: Bytes = np.where(snapshot, 255, 0).astype(np.uint8)[:, None]
    serial = lsn.big_endian(numbers(ordinal), 8)
    first = np.where(commit.known[:, None], commit.digits, 0).astype(np.uint8)
    second = np.where(change.known[:, None], change.digits, unknown)
    third = np.where(valid(ordinal)[:, None], serial, unknown)
    if not commit.known.all():
        nowhere = ~commit.known[:, None]
        second = np.where(nowhere, lsn.big_endian(numbers(raw.column("partition")), lsn.WIDTH), second)
        third = np.where(nowhere, lsn.big_endian(numbers(raw.column("offset")), 8), third)
    return first, second.astype(np.uint8), third.astype(np.uint8)
