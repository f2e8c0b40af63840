"""Positions of events in their source's order, and the commit times of their transactions.

The position is in `logicalid`, `<guid>:<commit LSN>:<sequence>`, and in the transaction, which counts if
`logicalid` has none.

`committime` has a `Z`, but on servers not in UTC it is their local time. The envelope's `time` counts if the
two are whole quarter hours apart. If they are not, nothing says which of them is right: `committime` counts,
and is suspect. If only one is present, nothing contradicts it (wire notes). As in the other dialects, a time
before 1971 is no time: 1601 and 1900 are what Windows and SQL Server write for no time. If no other is left,
the time of the Kafka record stands in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.dialects.ces.events import Event
from changeledger.kernels import clocks, lsn, sql_text
from changeledger.kernels.arrow import INSTANT, Bools, fixed_width, flags_of, numbers, valid
from changeledger.kernels.lsn import Lsns

_LONG = 2**63 - 1
_PLACE = r":(?P<lsn>[0-9A-Fa-f]{20}):(?P<number>[0-9]{1,20})$"
_QUARTER_HOUR = 900_000_000
_FARTHEST_ZONE = 14 * 4 * _QUARTER_HOUR
# `committime` may come from a `datetime`, which counts thirds of 10 ms.
_TICK = 10_000
_USUAL = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$"
_INSTANT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}:[0-9]{2})([.][0-9]{1,9})?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})?\Z"
)
# SQL Server's own rank of a delete, an insert and an update at one position.
_RANKS = {"DEL": 1, "INS": 2, "UPD": 4}


class Positions(NamedTuple):
    """The positions of n events."""

    commit_lsn: Lsns
    # NULL if it is missing or impossible.
    ordinal: pa.Int64Array
    # Whether `logicalid` and the transaction contradict each other.
    differs: Bools


class Times(NamedTuple):
    """Commit times: NULL if neither text is a time, 1970 if neither says when it was."""

    committed_at: pa.TimestampArray
    is_suspect: Bools


def positions(events: Sequence[Event]) -> Positions:
    ids = pa.array([event.logicalid for event in events], pa.string())
    parts = pc.extract_regex(ids, _PLACE)
    of_id = lsn.parse_all(pc.struct_field(parts, "lsn"))
    number_of_id = _of_digits(pc.struct_field(parts, "number"))
    of_transaction = lsn.parse_all(pa.array([event.commitlsn for event in events], pa.string()))
    number = _numbers([event.sequencenumber for event in events])
    in_id = of_id.known & valid(number_of_id)
    differs = of_id.known & of_transaction.known & (of_id.digits != of_transaction.digits).any(axis=1)
    differs |= flags_of(pc.not_equal(number_of_id, number))
    commit = Lsns(np.where(in_id[:, None], of_id.digits, of_transaction.digits), in_id | of_transaction.known)
    ordinal = pc.if_else(pa.array(in_id), number_of_id, number)
    positive = pc.fill_null(pc.greater_equal(ordinal, 0), fill_value=False)
    return Positions(commit, pc.if_else(positive, ordinal, pa.scalar(None, pa.int64())), in_id & differs)


def _of_digits(texts: pa.StringArray) -> pa.Int64Array:
    try:
        return pc.cast(texts, pa.int64())
    except pa.ArrowInvalid:
        return _numbers(texts.to_pylist())


def _numbers(values: Sequence[str | int | None]) -> pa.Int64Array:
    try:
        return pa.array(values, pa.int64())
    except (pa.ArrowException, OverflowError, TypeError):
        wholes = (None if v is None else sql_text.whole(str(v), -_LONG - 1, _LONG) for v in values)
        return pa.array(list(wholes), pa.int64())


def sort_keys(place: Positions, operations: Sequence[str]) -> pa.BinaryArray:
    """Returns 19 bytes: commit LSN, number inside the transaction, rank of the operation."""
    rank = np.array([_RANKS[operation] for operation in operations], np.uint8).reshape(-1, 1)
    key = np.hstack([place.commit_lsn.digits, lsn.big_endian(numbers(place.ordinal), 8), rank])
    return fixed_width(key)


def times(events: Sequence[Event]) -> Times:
    texts = [
        pa.array([getattr(event, name) for event in events], pa.string()) for name in ("time", "committime")
    ]
    (event, has_event), (commit, has_commit) = (
        clocks.of_texts(column, _USUAL, INSTANT, instant) for column in texts
    )
    is_some = has_event | has_commit
    has_event = has_event & (event >= clocks.FIRST_KNOWN)
    has_commit = has_commit & (commit >= clocks.FIRST_KNOWN)
    is_unknown = is_some & ~has_event & ~has_commit
    apart = np.abs(commit - event)
    beyond = apart % _QUARTER_HOUR
    quarters = ((beyond <= _TICK) | (beyond >= _QUARTER_HOUR - _TICK)) & (apart <= _FARTHEST_ZONE + _TICK)
    agree = ~has_commit | (has_event & quarters)
    known = np.where(agree, has_event, has_commit) | is_unknown
    micros = np.where(is_unknown, 0, np.where(agree, event, commit))
    is_suspect = (~agree & valid(texts[0])) | is_unknown
    return Times(pa.array(micros, pa.int64(), mask=~known).view(INSTANT), is_suspect)


def committed(time: Times, received: pa.TimestampArray) -> pa.TimestampArray:
    """Returns the commit times; where none says when it was, the time of the Kafka record."""
    is_unknown = pc.less(time.committed_at.view(pa.int64()), clocks.FIRST_KNOWN)
    return pc.if_else(is_unknown, pc.coalesce(received, time.committed_at), time.committed_at)


def instant(text: str) -> int | None:
    """Parses an ISO time of the years 1 to 9999 to microseconds since 1970; finer digits are cut."""
    match = _INSTANT.match(text)
    if match is None:
        return None
    zone = match[4] or "Z"
    minutes = 0 if zone == "Z" else int(zone[:3]) * 60 + int(f"{zone[0]}{zone[4:]}")
    if abs(minutes) > 18 * 60 or int(zone[4:] or 0) > 59:
        return None
    return clocks.instant(f"{match[1]}T{match[2]}", (match[3] or "")[1:], minutes)
