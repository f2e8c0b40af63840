"""Determines when intervals of history begin: at the commit time, and never before the preceding interval."""

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
    """Returns when each place's interval begins, in microseconds since 1970; `UNKNOWN` if that is not known.

    Commit times can go back while positions go on; then the later time counts. But the time of a snapshot row
    is when it was read or delivered, and the changes after it may have been committed long before, as in a
    repeated full load. Such a row begins no later than the change after it, and delays no change.
    """
    effects, at = sequence.effects, sequence.at
    begins, committed = (_micros(sequence, name) for name in ("valid_from", "committed_at"))
    is_read = effects.is_a(change.SNAPSHOT)[at]
    of_next_change = _of_next(begins, is_read, sequence)
    times = np.where(is_read, np.minimum(committed, of_next_change), begins)
    return order.running_max(times, sequence.is_first)


def outdated(sequence: OrderedEffects) -> Indices:
    """Returns the published snapshot rows that a new change after them may make begin at another time.

    The interval before such a row ends when the row is published to begin. A row that does not begin when it
    was read does so because of its neighbours, which may be snapshot rows, too.
    """
    is_shown = sequence.effects.is_a(change.SNAPSHOT)[sequence.at]
    places = (sequence.effects.origin[sequence.at] == SEED) & is_shown & sequence.is_followed
    published, read = (_micros(sequence, name) for name in ("valid_from", "committed_at"))
    is_early = _of_next(published, is_shown, sequence) < published
    return np.flatnonzero(places & ((published != read) | is_early))


def _micros(sequence: OrderedEffects, name: str) -> Indices:
    moments = taken(column(sequence.effects.rows, name), sequence.at)
    return np.where(valid(moments), numbers(moments), UNKNOWN)


def _of_next(times: Indices, passed_over: Bools, sequence: OrderedEffects) -> Indices:
    """Returns, for each place, the time of its key's next place that is not passed over, or `_NEVER`."""
    size = len(times)
    next_at = np.minimum.accumulate(np.where(passed_over, size, np.arange(size))[::-1])[::-1]
    key_number = sequence.key_number
    inside = np.minimum(next_at, size - 1)
    is_there = (next_at < size) & (key_number[inside] == key_number)
    return np.where(is_there, times[inside], _NEVER)
