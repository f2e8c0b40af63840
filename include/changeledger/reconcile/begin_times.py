"""When the intervals of history begin: by commit time, and never before the one in front of them."""

from __future__ import annotations

import numpy as np

from changeledger.kernels import order
from changeledger.kernels.arrow import Bools, Indices, column, numbers, taken, valid
from changeledger.model import change
from changeledger.reconcile.effects import SEED
from changeledger.reconcile.ordered import OrderedEffects

UNKNOWN = np.iinfo(np.int64).min
_NEVER = np.iinfo(np.int64).max


def begin_times(sequence: OrderedEffects) -> Indices:
    """Of each place, in microseconds from 1970; `UNKNOWN` if nothing says it.

    Commit times can go back while positions go on: then the later one counts. But the time of a snapshot's
    row is when it was read, or delivered, and the changes behind it may have been committed long before: a
    full load that comes again. It begins no later than the change behind it, and no change because of it.
    """
    effects, at = sequence.effects, sequence.at
    begins, committed = (_micros(sequence, name) for name in ("valid_from", "committed_at"))
    # One that had to begin later stays there.
    is_read = effects.is_a(change.SNAPSHOT)[at] & (begins <= committed)
    if not is_read.any():
        return order.running_max(begins, sequence.is_first)
    of_changes = order.running_max(np.where(is_read, UNKNOWN, begins), sequence.is_first)
    latest = np.where(is_read, _of_next(of_changes, is_read, sequence), _NEVER)
    times = np.minimum(np.where(is_read, committed, begins), latest)
    return order.running_max(times, sequence.is_first)


def outdated(sequence: OrderedEffects) -> Indices:
    """The published rows of snapshots that may begin at another time now, for a change behind them is new.

    The interval in front of one ends when it is published to begin. One that does not begin when it was read
    does so because of its neighbours, which may be rows of snapshots, too.
    """
    is_shown = sequence.effects.is_a(change.SNAPSHOT)[sequence.at]
    places = (sequence.effects.origin[sequence.at] == SEED) & is_shown & sequence.is_followed
    if not places.any():
        return np.flatnonzero(places)
    published, read = (_micros(sequence, name) for name in ("valid_from", "committed_at"))
    is_early = _of_next(published, is_shown, sequence) < published
    return np.flatnonzero(places & ((published != read) | is_early))


def _micros(sequence: OrderedEffects, name: str) -> Indices:
    moments = taken(column(sequence.effects.rows, name), sequence.at)
    return np.where(valid(moments), numbers(moments), UNKNOWN)


def _of_next(times: Indices, passed_over: Bools, sequence: OrderedEffects) -> Indices:
    """Of each place the time of the next one on its key that is not passed over; `_NEVER` for none."""
    size = len(times)
    next_at = np.minimum.accumulate(np.where(passed_over, size, np.arange(size))[::-1])[::-1]
    key_number = sequence.key_number
    inside = np.minimum(next_at, size - 1)
    is_there = (next_at < size) & (key_number[inside] == key_number)
    return np.where(is_there, times[inside], _NEVER)
