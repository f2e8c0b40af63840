"""Facts on whether a successor may replace the capture tool in use: what both feeds did in a period.

They come from the control store and the quarantine only. `state.verdict` judges them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from changeledger.compare.columns import not_compared, only_in
from changeledger.config.database import Database
from changeledger.config.feed import Feed
from changeledger.control import ControlStore
from changeledger.control.outcomes import SOURCE
from changeledger.control.releases import ReleaseSummary
from changeledger.control.tables.feeds import FailureRow
from changeledger.control.tables.results import ProofRow
from changeledger.kernels.lateness import Committed, Lateness, lateness
from changeledger.model.contract import Contract
from changeledger.model.errors import ConfigError
from changeledger.model.misspelt import choice
from changeledger.state import quarantine
from changeledger.state.compared import PairCompared, pair_compared
from changeledger.state.quarantine import Group


class Period(NamedTuple):
    since: datetime
    until: datetime

    @property
    def length(self) -> timedelta:
        return self.until - self.since


class Masks(NamedTuple):
    """Tables whose change masks have a proved byte order, and tables with masks whose order is not proved."""

    proved: Sequence[str]
    unproved: Sequence[str]


@dataclass(frozen=True)
class FeedFacts:
    """One feed in the period. Its quarantine has records that were read in the period."""

    feed: str
    dialect: str
    tables: Sequence[str]
    releases: int
    # None: no release of the period has changes from the log.
    lateness: Lateness | None
    records: int
    quarantined: Sequence[Group]
    # Records that were read before the period and are still in quarantine.
    quarantined_before: int
    quarantine_limit: float
    masks: Masks
    # Sentences on what the source no longer had.
    gaps: Sequence[str]
    # The number of earlier changes that are lacking, by table.
    lacking: Mapping[str, int]
    # The number of changes that were released after the last comparison.
    uncompared: int
    # Why the last run failed, if it did.
    failure: FailureRow | None

    @property
    def in_quarantine(self) -> int:
        return sum(group.records for group in self.quarantined)

    @property
    def share(self) -> float:
        """The share of the period's records that are in quarantine."""
        return self.in_quarantine / self.records if self.records else float(self.in_quarantine > 0)


class TableColumns(NamedTuple):
    """Columns of a table in both feeds: those that the successor lacks, and why others are not compared."""

    table: str
    lost: Sequence[str]
    not_compared: Mapping[str, str]


@dataclass(frozen=True)
class CutoverFacts:
    """Facts about two feeds of a database, the one in use and its successor."""

    database: str
    old: FeedFacts
    new: FeedFacts
    period: Period
    compared: PairCompared
    # For tables that both feeds have published.
    columns: Sequence[TableColumns]
    # The last proof against the source, for each table of the successor.
    proofs: Mapping[str, ProofRow]
    # Whether the source can be read, so that proofs are possible.
    has_source: bool
    # The failures of the last comparison and of the last proof, if they failed.
    compare_failure: FailureRow | None
    verify_failure: FailureRow | None

    @property
    def both(self) -> Sequence[str]:
        """Tables that both feeds read, as the one in use names them."""
        new = {table.lower() for table in self.new.tables}
        return [table for table in self.old.tables if table.lower() in new]

    @property
    def only_old(self) -> Sequence[str]:
        return _without(self.old.tables, self.new.tables)

    @property
    def only_new(self) -> Sequence[str]:
        return _without(self.new.tables, self.old.tables)


def _without(tables: Sequence[str], others: Sequence[str]) -> Sequence[str]:
    known = {table.lower() for table in others}
    return [table for table in tables if table.lower() not in known]


def pair_of(database: Database, feeds: Mapping[str, Feed], old: str, new: str) -> tuple[Feed, Feed]:
    """Returns both feeds. Raises ConfigError unless they are two different feeds of the database."""
    of_database = {name: feed for name, feed in feeds.items() if feed.database == database.database}
    for name in (old, new):
        if name not in of_database:
            said = f"the database {database.database} has no feed {name!r}"
            raise ConfigError(said, choice(name, of_database))
    if old == new:
        raise ConfigError(f"{old} cannot replace itself", "name two feeds: the one in use and its successor")
    return of_database[old], of_database[new]


def gather(
    control: ControlStore,
    database: Database,
    feeds: Mapping[str, Feed],
    pair: tuple[Feed, Feed],
    period: Period,
) -> CutoverFacts:
    old, new = pair
    compared = pair_compared(control, database.database, (old.feed, new.feed), period.since)
    source = database.source(feeds)
    proofs = control.proofs.last(database.database, [new.feed]).get(new.feed, [])
    return CutoverFacts(
        database.database,
        _of_feed(control, old, period, compared.last_run),
        _of_feed(control, new, period, compared.last_run),
        period,
        compared,
        _columns(control, pair),
        {row.table.lower(): row for row in proofs if row.against == SOURCE},
        source is not None and source.connection is not None,
        control.failures.of_feed(database.comparison),
        control.failures.of_feed(database.verification),
    )


def _columns(control: ControlStore, pair: tuple[Feed, Feed]) -> list[TableColumns]:
    contracts = (control.contracts.of_feed(feed.feed, [t.table for t in feed.tables]) for feed in pair)
    old, new = ({table.lower(): contract for table, contract in known.items()} for known in contracts)
    names = (pair[0].feed, pair[1].feed)
    return [
        TableColumns(known.table, _lost(known, new[table]), not_compared(known, new[table], names))
        for table, known in old.items()
        if table in new
    ]


def _lost(old: Contract, new: Contract) -> list[str]:
    """Returns columns that the successor lacks, except those that are not published or no longer exist."""
    gone = {*old.dropped, *(c.name for c in old.columns if c.dropped)}
    return [name for name in only_in(old, new) if name not in gone]


def _of_feed(control: ControlStore, feed: Feed, period: Period, compared: datetime | None) -> FeedFacts:
    releases = control.releases.since(feed.feed, period.since)
    reads = control.sources.reads_since(feed.feed, period.since)
    inside, before = quarantine.summary_of(feed, reads.windows)
    evidence = control.contracts.mask_evidence(feed.feed)
    masks = Masks(
        [table for table, row in evidence.items() if row.mask_order],
        [table for table, row in evidence.items() if not row.mask_order],
    )
    gaps = [
        f"{row.source}: {row.problem or f'{row.before:,} records were removed before they could be read'}"
        for row in reads.wrong
    ]
    return FeedFacts(
        feed.feed,
        feed.dialect,
        [table.table for table in feed.tables],
        len(releases),
        lateness(_committed(releases)),
        reads.received,
        inside.groups,
        before,
        feed.quarantine_limit,
        masks,
        gaps,
        {row.table: row.lacking for row in feed.listed(control.feed_tables.lacking(feed.feed))},
        sum(row.changes for row in releases if compared is None or row.created_at > compared),
        control.failures.of_feed(feed.feed),
    )


_COMMITTED: Final = msgspec.json.Decoder(Committed)


def _committed(releases: Iterable[ReleaseSummary]) -> Iterator[tuple[datetime, Committed]]:
    """Yields when each release became readable, and its commit times.

    It decodes one release at a time, because those of a year have a million numbers.
    """
    for row in releases:
        if row.committed:
            yield row.completed_at or row.created_at, _COMMITTED.decode(row.committed)


def last_days(days: float) -> Period:
    """Returns the period of the last days. Raises ConfigError unless it is between 0 and 3650 days."""
    if not 0 < days <= 3650:
        raise ConfigError(
            f"a period of {days:g} days is not possible",
            "give the number of days to look back, such as --days 14",
        )
    until = datetime.now(UTC).replace(microsecond=0)
    return Period(until - timedelta(days=days), until)
