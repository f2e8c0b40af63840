"""Positions of Qlik messages in their source's order, and the commit times of their changes.

Changes are ordered by the LSN that SQL Server's stream position begins with (8:8:4 if Qlik reads the log,
bare hex if it reads MS-CDC), then the change sequence (one counter over all tables of a task), then the
counter inside the transaction. A source without LSNs is ordered by the change sequence only. The rows of a
full load come before everything, in the order of delivery.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.dialects.qlik_messages import instants
from changeledger.dialects.qlik_messages.events import DELETE, INSERT, REFRESH, UPDATE, Event
from changeledger.kernels import clocks, lsn, octets, sql_text
from changeledger.kernels.arrow import INSTANT, Bools, Bytes, Indices, fixed_width, numbers, valid
from changeledger.kernels.lsn import Lsns

_ISO = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$"
# The whole change sequence: year to second, hundredths, and a counter of 19 digits.
_SEQUENCE_DIGITS = 35
_CLOCK_DIGITS = 16
_SEQUENCE_BYTES = (_SEQUENCE_DIGITS + 1) // 2
# SQL Server's own rank at one position; a row of a full load shows the state after everything.
_RANKS = {DELETE: 1, INSERT: 2, UPDATE: 4, REFRESH: 5}
_NO_LSN = ("00000000:00000000:0000", "0" * 20)


class Positions(NamedTuple):
    """The positions of n events. `sequence` and `ordinal` are NULL if missing or impossible."""

    commit_lsn: Lsns
    sequence: pa.StringArray
    ordinal: pa.Int64Array
    committed_at: pa.TimestampArray
    # Whether the source does not say the commit time, its change sequence says another one, or it is later
    # than the message's own time.
    is_suspect: Bools
    # Whether the timestamp has a value that is not a time.
    bad_time: Bools


def positions(events: Sequence[Event], received: pa.TimestampArray) -> Positions:
    """Returns the positions of events. `received` has the times of their messages."""
    written = pa.array([event.sequence for event in events], pa.string())
    digits = pc.match_substring_regex(written, f"^[0-9]{{{_SEQUENCE_DIGITS}}}$")
    sequence = pc.if_else(digits, written, pa.scalar(None, pa.string()))
    streamed = np.array([event.operation != REFRESH for event in events], np.bool_)
    micros, has_time = _times([event.timestamp for event in events])
    is_known = has_time & (micros >= clocks.FIRST_KNOWN)
    clock = pc.cast(pc.utf8_slice_codeunits(sequence, 0, _CLOCK_DIGITS), pa.int64())
    in_sequence, has_clock = clocks.micros(np.where(valid(sequence), numbers(clock), 0))
    is_elsewhere = has_clock & clocks.in_another_zone(micros, in_sequence)
    stated = np.array([event.timestamp is not None for event in events], np.bool_)
    committed = _committed(micros, is_known, np.where(has_clock, in_sequence, 0), received)
    is_ahead = valid(received) & clocks.is_ahead(numbers(committed), numbers(received))
    return Positions(
        lsn.leading(pa.array([event.position for event in events], pa.string())),
        sequence,
        _counters([event.counter for event in events]),
        committed,
        streamed & (~is_known | is_elsewhere | is_ahead),
        stated & ~has_time,
    )


def is_one(stream_position: str | None) -> bool:
    """Returns whether a stream position places its change in the source's order. An LSN of zeros does not."""
    return bool(stream_position) and not str(stream_position).startswith(_NO_LSN)


def _counters(values: Sequence[str | int | None]) -> pa.Int64Array:
    try:
        counters = pa.array(values, pa.int64())
        least = pc.min(counters).as_py()
        if least is None or least >= 0:
            return counters
    except (pa.ArrowException, OverflowError, TypeError):
        pass
    return pa.array([None if value is None else sql_text.count(str(value)) for value in values], pa.int64())


def _times(values: Sequence[str | int | None]) -> tuple[Indices, Bools]:
    """Returns microseconds since 1970, and which values are times, or say that there is none."""
    try:
        texts = pa.array(values, pa.string())
    except (pa.ArrowException, TypeError):
        texts = pa.array([None if value is None else str(value) for value in values], pa.string())
    return clocks.of_texts(texts, _ISO, pa.timestamp("us"), instants.instant)


def _committed(
    micros: Indices, is_known: Bools, in_sequence: Indices, received: pa.TimestampArray
) -> pa.TimestampArray:
    """Returns the source's commit times, or else the time in the change sequence, or else the message's."""
    of_message = np.where(valid(received), numbers(received), 0)
    otherwise = np.where(in_sequence >= clocks.FIRST_KNOWN, in_sequence, of_message)
    return pa.array(np.where(is_known, micros, otherwise), pa.int64()).view(INSTANT)


def sort_keys(event_positions: Positions, events: Sequence[Event], raw: pa.RecordBatch) -> pa.BinaryArray:
    """Returns bytes: LSN (10), change sequence (18), counter (8), rank (1).

    A missing LSN is 1: below every LSN that SQL Server writes, and above the rows of a full load. These have
    10 zeros, partition (10), offset (8), rank (1).
    """
    rank = np.array([[_RANKS[event.operation]] for event in events], np.uint8).reshape(-1, 1)
    loaded = np.array([event.operation == REFRESH for event in events], np.bool_)
    place: Bytes = np.where(
        event_positions.commit_lsn.known[:, None], event_positions.commit_lsn.digits, 0
    ).astype(np.uint8)
    place[~event_positions.commit_lsn.known, -1] = 1
    counter = lsn.big_endian(np.where(valid(event_positions.ordinal), numbers(event_positions.ordinal), 0), 8)
    streamed = fixed_width(np.hstack([place, _packed(event_positions.sequence), counter, rank]))
    if not loaded.any():
        return streamed
    nowhere = np.zeros_like(place)
    partition = lsn.big_endian(numbers(raw.column("partition")), lsn.WIDTH)
    offset = lsn.big_endian(numbers(raw.column("offset")), 8)
    return pc.if_else(pa.array(loaded), fixed_width(np.hstack([nowhere, partition, offset, rank])), streamed)


def _packed(sequence: pa.StringArray) -> Bytes:
    """Packs two decimal digits into each byte, in the order of the numbers."""
    digits = np.zeros((len(sequence), 2 * _SEQUENCE_BYTES), np.uint8)
    known = valid(sequence)
    digits[known, 1:] = octets.matrix(sequence.drop_null(), _SEQUENCE_DIGITS) - ord("0")
    packed: Bytes = (digits[:, ::2] << 4 | digits[:, 1::2]).astype(np.uint8)
    return packed
