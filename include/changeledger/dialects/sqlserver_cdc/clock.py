"""When a transaction was committed, by a clock that shows an hour twice.

`cdc.lsn_time_mapping` has local times of the server, without a zone. Where its zone puts the clock back, an
hour (half of one on Lord Howe) comes twice, and only the log's order shows in which pass of it a commit was:
LSNs rise, so a commit behind one of a later time is of the second pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

# Never put back and forth within this time.
_STEP = timedelta(days=1)
_MINUTE = timedelta(minutes=1)
# Transactions that commit at once are up to some hundredths of a second out of order (rows of a server in
# debezium/debezium#2606), and a server's clock is set right now and then. Times are in whole minutes here.
_OUT_OF_ORDER = 2 * _MINUTE
# An idle log gets a mark every five minutes (the same rows): what follows that closely is of the same pass.
_QUIET = 10 * _MINUTE


class RepeatedHour(NamedTuple):
    """The local times `[start, end)` that a clock shows twice; without a zone."""

    start: datetime
    end: datetime

    @property
    def marks_from(self) -> datetime:
        """Who was captured last before the hour begins."""
        return self.start - _QUIET

    def has(self, local: datetime) -> bool:
        return self.start <= local < self.end


class FallBack(NamedTuple):
    """In which pass of its hour a commit was. `fold`, as in PEP 495: 0 in the first, 1 in the second.

    Commits before the LSN `since` have the fold 0, the others `fold`; None: the order does not show it.
    """

    hour: RepeatedHour
    since: bytes | None = None
    fold: int | None = None

    def of(self, lsn: bytes) -> int | None:
        return 0 if self.since is None or lsn < self.since else self.fold


def repeated_hours(zone: str, first: datetime, last: datetime) -> Iterator[RepeatedHour]:
    """Those with local times between these two."""
    clock = ZoneInfo(zone)
    begin, end = (
        (first - 2 * _STEP).replace(second=0, microsecond=0, tzinfo=UTC),
        last.replace(tzinfo=UTC) + 2 * _STEP,
    )
    moments = [begin + n * _STEP for n in range((end - begin) // _STEP + 1)]
    for low, high in pairwise(moments):
        if _ahead(clock, low) <= _ahead(clock, high):
            continue
        at = _put_back(clock, low, high)
        hour = RepeatedHour(*(at.replace(tzinfo=None) + _ahead(clock, side) for side in (at, at - _MINUTE)))
        if hour.start <= last and first < hour.end:
            yield hour


def comes_twice(local: datetime, zone: str) -> bool:
    earlier, later = (local.replace(tzinfo=ZoneInfo(zone), fold=fold).utcoffset() for fold in (0, 1))
    return (earlier or timedelta()) > (later or timedelta())


def _put_back(clock: ZoneInfo, low: datetime, high: datetime) -> datetime:
    """The first minute after the change between these two."""
    before = _ahead(clock, low)
    while high - low > _MINUTE:
        middle = low + (high - low) // (2 * _MINUTE) * _MINUTE
        low, high = (middle, high) if _ahead(clock, middle) == before else (low, middle)
    return high


def _ahead(clock: ZoneInfo, moment: datetime) -> timedelta:
    return moment.astimezone(clock).utcoffset() or timedelta()


def fall_back(hour: RepeatedHour, commits: Iterable[tuple[bytes, datetime]], *, marked: bool) -> FallBack:
    """What the commits around an hour show of it: LSNs with local times, of each minute the first at least.

    `marked`: idle times are marked, so a commit that follows another one closely is of the same pass.
    """
    highest = before = None
    doubtful: bytes | None = None
    for lsn, local in sorted(commits):
        at = local.replace(second=0, microsecond=0)
        if hour.has(at):
            if highest is not None and highest - at >= _OUT_OF_ORDER:
                return FallBack(hour, lsn, 1)
            follows = marked and before is not None and at - before <= _QUIET
            if doubtful is None and not follows:
                doubtful = lsn
        if at < hour.end:
            highest, before = at if highest is None else max(highest, at), at
    return FallBack(hour, doubtful)


def moment(local: datetime, zone: str, fold: int | None) -> datetime:
    """The local time in UTC; of the first pass where it is not known."""
    return local.replace(tzinfo=ZoneInfo(zone), fold=fold or 0).astimezone(UTC)
