"""The part of the log that two feeds have in common."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.arrow import Bools, Indices, flags_of, valid

# Tools round commit times to a second at most, and take some of them from clocks of their own.
SLACK: Final = timedelta(seconds=5)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def micros(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


def moment(number: int | None) -> datetime | None:
    return None if number is None else _EPOCH + timedelta(microseconds=number)


def micros_of(times: pa.Array) -> pa.Int64Array:
    """Converts a column of timestamps to microseconds since 1970."""
    return times.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())


class Reach(NamedTuple):
    """The part `[since, until)` of a log, by commit LSN, by commit time, or all of it."""

    since: bytes | None = None
    until: bytes | None = None
    since_time: datetime | None = None
    until_time: datetime | None = None

    @property
    def is_empty(self) -> bool:
        pairs = ((self.since, self.until), (self.since_time, self.until_time))
        return any(a is not None and b is not None and a >= b for a, b in pairs)  # type: ignore[operator]

    def holds(self, places: pa.BinaryArray, times: pa.TimestampArray) -> Bools:
        """Returns which changes are in reach.

        By time, it takes in `SLACK` more at both ends, where no change counts as missing or extra.
        """
        if self.since is not None and self.until is not None:
            return flags_of(pc.and_(pc.greater_equal(places, self.since), pc.less(places, self.until)))
        if self.since_time is not None and self.until_time is not None:
            return within(self.since_time - SLACK, self.until_time + SLACK, times)
        return np.ones(len(places), np.bool_)

    def is_in_both(self, times: pa.TimestampArray) -> Bools:
        """Returns whether both feeds must have a change with each commit time."""
        if self.since_time is None or self.until_time is None:
            return np.ones(len(times), np.bool_)
        return within(self.since_time + SLACK, self.until_time - SLACK, times)


def within(since: datetime, until: datetime, times: pa.TimestampArray) -> Bools:
    """Returns which commit times are in `[since, until)`."""
    in_micros = micros_of(times)
    inside = pc.and_(pc.greater_equal(in_micros, micros(since)), pc.less(in_micros, micros(until)))
    return flags_of(inside)


def are_apart(times: pa.TimestampArray, rows: Indices, others: Indices) -> Bools:
    """Returns which pairs of rows have commit times further apart than tools round them."""
    if not len(times):
        return np.zeros(len(rows), np.bool_)
    at, is_known = micros_of(times).fill_null(0).to_numpy(), valid(times)
    apart: Bools = np.abs(at[rows] - at[others]) > SLACK // timedelta(microseconds=1)
    return apart & is_known[rows] & is_known[others]
