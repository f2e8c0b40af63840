"""Comparisons of feeds: stores and accepts them, and queries them for pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple

from sqlalchemy import BigInteger, ColumnElement, and_, case, cast, delete, extract, func, or_, select

from changeledger.control.base import Part, grouped
from changeledger.control.lease import require_free
from changeledger.control.newest import standing_comparisons
from changeledger.control.tables.results import ACCEPTED, DIFFER, ComparisonRow
from changeledger.model.database_work import comparison_of

_DAY_SECONDS = 86_400


class PairOutcome(NamedTuple):
    """Outcomes of the last comparisons of two feeds and of their open disagreements."""

    reference: str
    feed: str
    outcomes: frozenset[str]
    at: datetime


class Day(NamedTuple):
    """The comparisons that ended on one day in UTC. `counts`: their effects by verdict."""

    day: date
    counts: Mapping[str, int]


class TableReach(NamedTuple):
    """All comparisons of one table of two feeds, with one of the feeds as the reference.

    `start`: the last position in the log that is known to be before a given moment.
    `end`: the last position that was compared. `begun`, `until`: first and last commit time of an effect.
    """

    table: str
    start: str | None
    end: str | None
    at: datetime
    begun: datetime | None
    until: datetime | None


class Counted(NamedTuple):
    """What comparisons count: each effect has one of the verdicts, and an expected effect also a class."""

    verdicts: Sequence[str]
    classes: Sequence[str]


class TableSums(NamedTuple):
    """Sums of comparisons of one table of two feeds, with one of the feeds as the reference.

    Accepted comparisons are summed separately. `since`, `until`: first and last commit time of an effect.
    """

    table: str
    reference: str
    is_accepted: bool
    comparisons: int
    since: datetime | None
    until: datetime | None
    counts: Mapping[str, int]


class Comparisons(Part):
    def save(self, row: ComparisonRow) -> None:
        """Stores the row in place of those that it covers. Raises LeaseLost if another process compares."""
        covered = self.covered(row)
        with self._writing(comparison_of(row.database)) as session:
            session.execute(delete(ComparisonRow).where(ComparisonRow.id.in_(covered)))
            session.merge(row)

    def covered(self, row: ComparisonRow) -> list[str]:
        """Returns the ids of other comparisons whose part of the log `row` has compared again."""
        of = ComparisonRow
        query = select(of.id, of.from_lsn, of.to_lsn).where(
            *_of_pair(row.database, row.reference, row.feed), of.table == row.table, of.id != row.id
        )
        whole = row.from_lsn, row.to_lsn
        return [id for id, *part in self._rows(query) if _is_within(part, whole)]

    def disagreements(self, database: str) -> list[ComparisonRow]:
        """Returns comparisons above the tolerance, neither resolved nor accepted, the oldest first."""
        return self._comparisons(ComparisonRow.database == database, ComparisonRow.outcome == DIFFER)

    def accept(  # noqa: PLR0913, PLR0917 - why, by whom, and of what
        self, database: str, reason: str, by: str, feed: str = "", table: str = "", reference: str = ""
    ) -> int:
        """Accepts the open disagreements of a database, or of one feed, table or reference of it.

        Returns how many. Raises LeaseHeld while the database is compared: that run would store the
        disagreements again.
        """
        accepted = 0
        with self._transaction() as session:
            require_free(session, comparison_of(database))
            query = select(ComparisonRow).where(ComparisonRow.database == database)
            for row in session.scalars(query.where(ComparisonRow.outcome == DIFFER)):
                is_of_pair = feed in ("", row.feed) and reference in ("", row.reference)
                if is_of_pair and table.lower() in ("", row.table.lower()):
                    row.outcome, row.accepted_reason, row.accepted_by = ACCEPTED, reason, by
                    accepted += 1
        return accepted

    def of_database(self, database: str, since: datetime | None = None) -> list[ComparisonRow]:
        """Returns a database's comparisons, the oldest first. `since`: only those that ended since then."""
        of = ComparisonRow
        return self._comparisons(of.database == database, *(() if since is None else (of.at >= since,)))

    def of_id(self, id: str) -> ComparisonRow | None:
        return self._get(ComparisonRow, id)

    def last(
        self, database: str, pair: tuple[str, str] | None = None
    ) -> dict[tuple[str, str], list[ComparisonRow]]:
        """Returns the last comparison of each table and open disagreements, by reference and feed.

        `pair`: only those of this reference and feed.
        """
        where = () if pair is None else _of_pair(database, *pair)
        rows = self._comparisons(ComparisonRow.id.in_(standing_comparisons([database], *where)))
        return grouped(((row.reference, row.feed), row) for row in rows)

    def pair_outcomes(self, databases: Iterable[str], of_feed: str | None = None) -> list[PairOutcome]:
        """Returns the outcomes of all pairs of compared feeds. `of_feed`: only pairs with this feed."""
        of = ComparisonRow
        where = () if of_feed is None else (or_(of.reference == of_feed, of.feed == of_feed),)
        query = select(of.reference, of.feed, of.outcome, func.max(of.at))
        query = query.where(of.id.in_(standing_comparisons(databases, *where)))
        rows = self._rows(query.group_by(of.reference, of.feed, of.outcome))
        pairs = grouped(((row.reference, row.feed), (row.outcome, row[3])) for row in rows)
        return [
            PairOutcome(*pair, frozenset(outcome for outcome, _ in ends), max(at for _, at in ends))
            for pair, ends in sorted(pairs.items())
        ]

    def settled(self, database: str, reference: str, feed: str) -> dict[str, str]:
        """Returns by table the LSN up to which the two feeds are compared without an open disagreement."""
        of = ComparisonRow
        begins = func.min(case((of.outcome == DIFFER, func.coalesce(of.from_lsn, ""))))
        query = select(of.table, func.max(of.to_lsn), begins).where(
            *_of_pair(database, reference, feed), of.to_lsn.is_not(None)
        )
        rows = self._rows(query.group_by(of.table))
        return {table: end if begin is None else begin for table, end, begin in rows}

    def days(
        self, database: str, pair: tuple[str, str], since: datetime, verdicts: Sequence[str]
    ) -> list[Day]:
        """Returns sums by day of the comparisons that ended at `since` or later, the oldest first."""
        of = ComparisonRow
        day = cast(extract("epoch", of.at), BigInteger) // _DAY_SECONDS
        sums = [func.sum(of.counts[verdict].as_integer()) for verdict in verdicts]
        query = select(day.label("day"), *sums).where(*_of_pair(database, *pair), of.at >= since)
        epoch = date(1970, 1, 1)
        return [
            Day(epoch + timedelta(days=int(day)), dict(zip(verdicts, map(int, counts), strict=True)))
            for day, *counts in self._rows(query.group_by("day").order_by("day"))
        ]

    def table_reaches(
        self, database: str, pair: tuple[str, str], moment: datetime, verdicts: Sequence[str]
    ) -> list[TableReach]:
        """Returns the reaches of two feeds with each other, whichever was the reference.

        `verdicts`: those that count effects.
        """
        of = ComparisonRow
        has_effects = _has_effects(verdicts)
        begun, until = (case((has_effects, time)) for time in (of.from_time, of.to_time))
        start = case((of.from_time <= moment, of.from_lsn))
        columns = map(func.max, (start, of.to_lsn, of.at))
        query = select(of.table, *columns, func.min(begun), func.max(until))
        query = query.where(_between(database, pair)).group_by(of.table, of.reference)
        return [TableReach(*row) for row in self._rows(query.order_by(func.max(of.at)))]

    def table_sums(
        self, database: str, pair: tuple[str, str], moment: datetime, counted: Counted
    ) -> list[TableSums]:
        """Sums the comparisons of two feeds with each other that reach beyond the moment."""
        of, names = ComparisonRow, (*counted.verdicts, *counted.classes)
        has_effects = _has_effects(counted.verdicts)
        times = [func.min(case((has_effects, of.from_time))), func.max(case((has_effects, of.to_time)))]
        # Earlier versions did not count all classes.
        sums = [func.coalesce(func.sum(of.counts[name].as_integer()), 0) for name in names]
        # Grouped by its label: in PostgreSQL, each use of the expression would have its own parameter.
        is_accepted = (of.outcome == ACCEPTED).label("is_accepted")
        query = select(of.table, of.reference, is_accepted, func.count(), *times, *sums)
        query = query.where(_between(database, pair), _reaches(moment))
        return [
            TableSums(table, reference, bool(accepted), number, since, until,
                      dict(zip(names, map(int, counts), strict=True)))
            for table, reference, accepted, number, since, until, *counts in self._rows(
                query.group_by(of.table, of.reference, "is_accepted")
            )
        ]  # fmt: skip

    def notable(
        self, database: str, pair: tuple[str, str], moment: datetime, differs: str
    ) -> list[ComparisonRow]:
        """Returns notable comparisons among those that `table_sums` sums, the oldest first.

        These were accepted, have effects that differ, or begin before the moment.
        """
        of = ComparisonRow
        is_notable = or_(of.outcome == ACCEPTED, of.counts[differs].as_integer() > 0, of.from_time < moment)
        return self._comparisons(_between(database, pair), _reaches(moment), is_notable)

    def compared_parts(
        self, database: str, pair: tuple[str, str], start: str
    ) -> dict[str, list[tuple[str, str]]]:
        """Returns by table the compared parts of the log, `[from, to)`, that reach to `start` or beyond."""
        of = ComparisonRow
        query = select(of.table, of.from_lsn, of.to_lsn).where(
            _between(database, pair), of.from_lsn.is_not(None), of.to_lsn >= start
        )
        return grouped((table, (begin, end)) for table, begin, end in self._rows(query))

    def _comparisons(self, *where: ColumnElement[bool]) -> list[ComparisonRow]:
        return self._all(select(ComparisonRow).where(*where).order_by(ComparisonRow.at, ComparisonRow.id))


def _of_pair(database: str, reference: str, feed: str) -> tuple[ColumnElement[bool], ...]:
    of = ComparisonRow
    return of.database == database, of.reference == reference, of.feed == feed


def _between(database: str, pair: tuple[str, str]) -> ColumnElement[bool]:
    feed, other = pair
    return or_(and_(*_of_pair(database, feed, other)), and_(*_of_pair(database, other, feed)))


def _reaches(moment: datetime) -> ColumnElement[bool]:
    return or_(ComparisonRow.to_time.is_(None), ComparisonRow.to_time >= moment)


def _has_effects(verdicts: Sequence[str]) -> ColumnElement[bool]:
    """Returns the condition that a comparison has effects: without any, its times are when it ran."""
    return or_(*(ComparisonRow.counts[verdict].as_integer() > 0 for verdict in verdicts))


def _is_within(part: Sequence[str | None], whole: Sequence[str | None]) -> bool:
    """Returns whether one `(from_lsn, to_lsn)` is within another. Without LSNs, everything was compared."""
    (begin, end), (whole_begin, whole_end) = part, whole
    if end is None or whole_end is None:
        return whole_end is None
    return (whole_begin or "") <= (begin or "") and end <= whole_end
