"""The part of the log that each feed has, and the part that two feeds have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from changeledger.compare import log, positions
from changeledger.compare.log import EXTENT, KNOWN, LOG, ROWS, TIMES
from changeledger.compare.positions import Positions
from changeledger.compare.reach import Reach, moment
from changeledger.config.feed import Feed
from changeledger.kernels.rows import Part, Rows, bucketed, together, where
from changeledger.model.contract import Contract
from changeledger.stages.common.stored import Ledger


@dataclass(frozen=True)
class FeedRange:
    """The part of the log that a feed has: from the first LSN that it has completely to the last one that it
    has at least in part."""

    feed: Feed
    # By lower-case table name. Contracts have the source's columns.
    ledgers: Mapping[str, Ledger]
    contracts: Mapping[str, Contract]
    # Number of changes.
    rows: int = 0
    first: bytes | None = None
    last: bytes | None = None
    # First and last change LSN, if the feed has change LSNs.
    changes: tuple[bytes | None, bytes | None] = (None, None)
    since: datetime | None = None
    until: datetime | None = None
    # Whether it has changes without an LSN.
    unplaced: bool = False

    def reach(self, other: FeedRange) -> Reach:
        """Returns the part that both feeds have, by LSN."""
        since = max(filter(None, (self.first, other.first)), default=None)
        return Reach(since, min(filter(None, (self.last, other.last)), default=None))

    def reach_by_time(self, other: FeedRange) -> Reach:
        """Returns the part that both feeds have, by time."""
        since = max(filter(None, (self.since, other.since)), default=None)
        until = min(filter(None, (self.until, other.until)), default=None)
        return Reach(since_time=since, until_time=until)

    def log(self) -> list[Rows]:
        """Returns `log.LOG` of each table's changes, without snapshot rows."""
        return [where(log_of(ledger), "is_snapshot", False) for ledger in self.ledgers.values()]


def log_of(ledger: Ledger) -> Rows:
    """Returns `log.LOG` of all rows of the ledger."""
    return ledger.rows(log.NEEDED).through(log.as_log, LOG)


def with_extent(of_feed: FeedRange) -> FeedRange:
    """Reads which part of the log the feed's ledgers have."""
    if not of_feed.ledgers:
        return of_feed
    each = [log_of(ledger).through(log.extent, EXTENT) for ledger in of_feed.ledgers.values()]
    extent = log.whole(together(each).collected())
    first = extent.first
    # A first snapshot covers everything up to its own position; the log continues after it.
    if extent.loaded is not None and (first is None or extent.loaded < first):
        first = (int.from_bytes(extent.loaded) + 1).to_bytes(len(extent.loaded))
    return replace(
        of_feed,
        rows=extent.rows,
        first=first,
        last=extent.last,
        changes=(extent.first_change, extent.last_change),
        since=moment(extent.since),
        until=moment(extent.until),
        unplaced=extent.unplaced,
    )


def corresponding(reference: FeedRange, other: FeedRange) -> Positions:
    """Determines how the positions of the two feeds correspond."""
    parts = max((reference.rows + other.rows) // positions.ENOUGH, 1)
    lsns = {}
    for name, of in ((positions.FIRST, reference), (positions.SECOND, other)):
        as_lsns = partial(positions.as_lsns, part=name, parts=parts)
        rows = together([table.through(as_lsns, positions.LSNS) for table in of.log()])
        lsns[name] = Part(rows, positions.KEY)
    ranges = ((reference.first, reference.last), reference.changes, (other.first, other.last), other.changes)
    counted = bucketed(lsns, partial(positions.count, ranges=ranges), {"counts": positions.COUNTS})
    return positions.in_common(counted["counts"].collected())


class Translation(NamedTuple):
    """Translates change LSNs of a feed into commit LSNs, by the ledger of a feed that has both."""

    known: FeedRange
    # The commit times at which the compared part begins and ends.
    times: tuple[datetime, datetime] | None = None

    def translated(self, unclear: FeedRange) -> FeedRange:
        """Returns `unclear` with the first and last commit LSN that the known feed has, too."""
        rows = self.placed(together(unclear.log()), together(self.known.log()))
        placed = where(rows, "is_placed", True).through(log.extent, EXTENT)
        extent = log.whole(placed.collected())
        return replace(unclear, first=extent.first, last=extent.last)

    def placed(self, rows: Rows, known: Rows) -> Rows:
        """Places the rows at the commit LSNs that `known` (`log.LOG`) has for their positions."""
        parts = {ROWS: Part(rows, log.KEY_OF_ROWS), KNOWN: Part(known, log.KEY_OF_KNOWN)}
        return bucketed(parts, log.place, {ROWS: rows.schema})[ROWS]

    def timed(self, reach: Reach) -> Translation:
        """Returns the translation with the commit times at the ends of the reach."""
        ends = [end or b"" for end in (reach.since, reach.until)]
        first = partial(log.first_times, ends=ends)
        each = [rows.through(first, TIMES) for rows in self.known.log()]
        times = together(each).collected()
        now = datetime.now(UTC)
        since, until = (log.least(times, name) or now for name in TIMES.names)
        return self._replace(times=(since, until))
