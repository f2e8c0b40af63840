"""The state of a feed's source as extract last saw it: how far it is read, what waits there, and since when.

A successful empty window does not show that reading is blocked at the source. This state does, from the
control store alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from changeledger.model.wording import counted

# How much clocks of one installation may differ.
_SKEW = timedelta(minutes=5)

OPEN_TRANSACTION = "a producer's transaction is open: find the producer, or abort it (kafka-transactions.sh)"
NOT_CAPTURED = (
    "nothing has been captured since, not even the marks of an idle log: check whether the capture job runs "
    "(sys.sp_cdc_help_jobs, sys.dm_cdc_errors)"
)
NEVER_CAPTURED = "nothing has been captured yet: check whether the capture job runs (sys.sp_cdc_help_jobs)"


@dataclass(frozen=True)
class SourceState:
    """A source (`topic[partition]`, `cdc.lsn_time_mapping` or a change table) as extract saw it at `at`."""

    source: str
    # The position up to which the feed has read the source, and the source's highest position.
    read: str
    end: str
    at: datetime
    # The number of offsets between the two; None if they cannot be counted.
    behind: int | None = None
    # Since when the oldest unread record waits, or nothing was captured; None: nothing waits.
    since: datetime | None = None
    # The time of the newest record: for a topic, of those read; for a database, of those that it has.
    newest: datetime | None = None
    # What keeps the feed from reading on, if known.
    why: str | None = None

    def is_late(self, now: datetime, allowed: timedelta, interval: timedelta = timedelta(0)) -> bool:
        """Returns whether something waits longer than allowed.

        Records that the next run will read may wait an `interval` more.
        """
        if self.since is None:
            return False
        return now - self.since > (allowed if self.why else allowed + interval)

    @property
    def waits(self) -> bool:
        """Whether there are unread records, or nothing is captured.

        Change tables have no count of unread rows: their positions are compared instead.
        """
        return bool(self.behind) or self.since is not None or (self.behind is None and self.read < self.end)

    @property
    def is_odd(self) -> bool:
        """Whether there is something to report although nothing waits."""
        return self.why is not None and self.since is None

    def text(self) -> str:
        waits = "" if self.behind is None else f"{counted(self.behind, 'record')} behind the end, "
        since = "" if self.since is None else f"since {self.since:%Y-%m-%d %H:%M:%S} UTC"
        parts = (f"{waits}{since}".rstrip(", "), self.why)
        return f"{self.source}: {'; '.join(part for part in parts if part)}"


def partition_state(  # noqa: PLR0913 - what a broker says of one
    source: str,
    read: int,
    stable: int,
    end: int,
    *,
    first: datetime | None,
    newest: datetime | None,
    earlier: SourceState | None,
    at: datetime,
) -> SourceState:
    """Returns the state of a partition that is read up to `read`, committed up to `stable` and ends at `end`.

    `first`: the time of the first unread record; None if only transaction markers follow.
    `newest`: the time of the newest record that was read now.
    """
    known = (newest, None if earlier is None else earlier.newest)
    newest = max((time for time in known if time is not None), default=None)
    if first is None or read >= end:
        return SourceState(source, str(read), str(end), at, 0, None, newest, _ahead(newest, at))
    why = OPEN_TRANSACTION if read >= stable else _ahead(newest, at)
    since = _waiting_since(read, first, earlier, at)
    return SourceState(source, str(read), str(end), at, end - read, since, newest, why)


def _waiting_since(read: int, first: datetime, earlier: SourceState | None, at: datetime) -> datetime:
    """Returns since when records wait: by the producer's clock, unless extract's last look contradicts it."""
    if earlier is None:
        return min(first, at)
    if earlier.since is not None and earlier.read == str(read):
        return earlier.since
    # Records that extract did not see the last time have arrived since.
    return min(max(first, earlier.at), at) if int(earlier.end) <= read else min(first, at)


def capture_state(
    source: str, read: str, end: str | None, newest: datetime | None, at: datetime
) -> SourceState:
    """Returns the state of SQL Server's capture, which marks the time even if nothing changes."""
    if end is None or newest is None:
        return SourceState(source, read, end or "", at, why=NEVER_CAPTURED)
    ahead = _ahead(newest, at)
    if ahead is not None:
        return SourceState(source, read, end, at, None, None, newest, ahead)
    return SourceState(source, read, end, at, None, newest, newest, NOT_CAPTURED)


def _ahead(newest: datetime | None, at: datetime) -> str | None:
    if newest is None or newest <= at + _SKEW:
        return None
    return (
        f"a record has the time {newest:%Y-%m-%d %H:%M:%S} UTC, which is in the future: the clock of its "
        "writer is ahead, or the feed's `time_zone` is wrong"
    )
