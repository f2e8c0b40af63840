"""Resolves commit times in an hour that the server's clock shows twice.

`cdc.lsn_time_mapping` has local times of the server, without a zone. When its zone puts the clock back, an
hour (half an hour on Lord Howe) occurs twice, and only the order of the log shows in which pass a commit was:
LSNs rise, so a commit that follows one with a later time is in the second pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

# No zone puts its clock back and forward again within this time.
_STEP = timedelta(days=1)
_MINUTE = timedelta(minutes=1)
# Concurrent transactions are up to some hundredths of a second out of order (rows of a server in
# debezium/debezium#2606), and a server's clock is corrected now and then. Times are in whole minutes here.
_OUT_OF_ORDER = 2 * _MINUTE
# An idle log gets a mark every five minutes (in the same rows), so a commit that follows another one this
# closely is in the same pass.
_QUIET = 10 * _MINUTE


class RepeatedHour(NamedTuple):
    """The local times `[start, end)`, without a zone, that a clock shows twice."""

    start: datetime
    end: datetime

    @property
    def marks_from(self) -> datetime:
        """The time from which to look for the last commit before the hour."""
        return self.start - _QUIET

    def has(self, local: datetime) -> bool:
        return self.start <= local < self.end


class FallBack(NamedTuple):
    """Tells in which pass of a repeated hour a commit was.

    Commits before the LSN `since` have fold 0, the others have `fold`; without `since` all have fold 0. Folds
    are those of PEP 495: 0 in the first pass, 1 in the second. None means that the order does not show it.
    """

    hour: RepeatedHour
    since: bytes | None = None
    fold: int | None = None

    def of(self, lsn: bytes) -> int | None:
        return 0 if self.since is None or lsn < self.since else self.fold


def repeated_hours(zone: str, first: datetime, last: datetime) -> Iterator[RepeatedHour]:
    """Yields the zone's repeated hours that have local times between `first` and `last`."""
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
    """Returns the first minute after the clock was put back, between `low` and `high`."""
    before = _ahead(clock, low)
    while high - low > _MINUTE:
        middle = low + (high - low) // (2 * _MINUTE) * _MINUTE
        low, high = (middle, high) if _ahead(clock, middle) == before else (low, middle)
    return high


def _ahead(clock: ZoneInfo, moment: datetime) -> timedelta:
    return moment.astimezone(clock).utcoffset() or timedelta()


def fall_back(hour: RepeatedHour, commits: Iterable[tuple[bytes, datetime]], *, marked: bool) -> FallBack:
    """Finds the passes of an hour from the commits around it.

    `commits` has LSNs with local times: at least the first commit of each minute. If `marked`, the log has
    marks of idle times, so a commit that follows another one closely is in the same pass.
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
    """Converts a local time to UTC. An unknown pass counts as the first."""
    return local.replace(tzinfo=ZoneInfo(zone), fold=fold or 0).astimezone(UTC)
