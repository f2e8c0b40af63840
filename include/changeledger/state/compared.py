"""What was compared of two feeds, table by table, and of what time; nothing that was not counts as equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from changeledger.compare import verdicts
from changeledger.control import ComparisonRow, ControlStore
from changeledger.control.tables.results import ACCEPTED


class Accepted(NamedTuple):
    """Differences that a person has accepted."""

    differences: int
    reason: str
    by: str


@dataclass(frozen=True)
class TableCompared:
    """The comparisons of one table that reach into a period; one that reaches out of it counts whole.

    `lost`: the feed in use has them and its successor does not; `surplus`: the other way round.
    """

    table: str
    # Effects that were compared, and those of them in the period, as far as is known.
    events: int
    in_period: int
    equal: int
    # By class (`compare.verdicts.CLASSES`), and in another text.
    expected: Mapping[str, int]
    lost: int
    surplus: int
    differs: int
    order: int
    accepted: Sequence[Accepted]
    # Of differing columns, the effects.
    columns: Mapping[str, int]
    since: datetime | None
    until: datetime | None
    # Does an unbroken row of comparisons begin before the period?
    is_covered: bool
    # Does the last of them end where the last one of any table does?
    is_current: bool
    comparisons: int

    @property
    def unexplained(self) -> int:
        return self.lost + self.surplus + self.differs + self.order


@dataclass(frozen=True)
class PairCompared:
    """All that was compared of two feeds. `begun`: the first commit time that was ever compared."""

    tables: Mapping[str, TableCompared]
    begun: datetime | None
    # When the last comparison that found something new ended, and up to which commit time it reached.
    last_run: datetime | None
    until: datetime | None

    def total(self, name: str) -> int:
        return sum(getattr(table, name) for table in self.tables.values())

    @property
    def expected(self) -> Mapping[str, int]:
        found: Counter[str] = Counter()
        for table in self.tables.values():
            found.update(table.expected)
        return found


def pair_compared(
    control: ControlStore, database: str, pair: tuple[str, str], since: datetime
) -> PairCompared:
    """Of (the feed in use, its successor); tables in lower case."""
    by_table: dict[str, list[ComparisonRow]] = {}
    rows = control.comparisons_of(database, pair)
    for row in rows:
        by_table.setdefault(row.table.lower(), []).append(row)
    # Of the places of the log that are known to lie before the period, the last one: LSNs grow with time.
    starts = (row.from_lsn for row in rows if row.from_lsn and row.from_time and row.from_time <= since)
    start, end = max(starts, default=None), max((row.to_lsn for row in rows if row.to_lsn), default=None)
    begun = min((row.from_time for row in rows if row.from_time and _events(row)), default=None)
    return PairCompared(
        {
            name: _table(of_table, Bounds(pair[0], since, start, end, begun))
            for name, of_table in by_table.items()
        },
        begun,
        max((row.at for row in rows), default=None),
        max((row.to_time for row in rows if row.to_time and _events(row)), default=None),
    )


def _events(row: ComparisonRow) -> int:
    return sum(row.counts[verdict] for verdict in verdicts.VERDICTS)


class Bounds(NamedTuple):
    """Of a pair: the feed in use, the period's begin, a place of the log before that, the last place that was
    compared, and the first commit time that was."""

    old: str
    since: datetime
    start: str | None
    end: str | None
    begun: datetime | None


def _table(rows: Sequence[ComparisonRow], bounds: Bounds) -> TableCompared:
    since = bounds.since
    inside = [row for row in rows if row.to_time is None or row.to_time >= since]
    counts: Counter[str] = Counter()
    columns: Counter[str] = Counter()
    accepted = []
    for row in inside:
        counts.update(_of_successor(row, bounds.old))
        faults = sum(row.counts[fault] for fault in verdicts.FAULTS)
        if row.outcome == ACCEPTED:
            accepted.append(Accepted(faults, row.accepted_reason or "", row.accepted_by or ""))
        else:
            columns.update({name: n.get(verdicts.DIFFERS, 0) for name, n in row.columns.items()})
    timed = [row for row in inside if _events(row)]
    return TableCompared(
        rows[-1].table,
        sum(map(_events, inside)),
        sum(_in_period(row, since) for row in inside),
        counts[verdicts.EQUAL],
        {name: counts[name] for name in (*verdicts.CLASSES, verdicts.REPRESENTATION)},
        counts[verdicts.MISSING],
        counts[verdicts.EXTRA],
        counts[verdicts.DIFFERS],
        counts[verdicts.ORDER],
        accepted,
        {name: number for name, number in columns.items() if number},
        min((row.from_time for row in timed if row.from_time), default=None),
        max((row.to_time for row in timed if row.to_time), default=None),
        _is_covered(rows, bounds),
        max((row.to_lsn for row in rows if row.to_lsn), default=None) == bounds.end,
        len(inside),
    )


def _of_successor(row: ComparisonRow, old: str) -> Mapping[str, int]:
    """The counts with the feed in use as the reference; differences that were accepted are left out."""
    counts = dict(row.counts)
    if row.outcome == ACCEPTED:
        counts |= dict.fromkeys(verdicts.FAULTS, 0)
    if row.reference != old:
        counts[verdicts.MISSING], counts[verdicts.EXTRA] = counts[verdicts.EXTRA], counts[verdicts.MISSING]
    return counts


def _in_period(row: ComparisonRow, since: datetime) -> int:
    """Effects of the spans that begin in the period: part of one that began before is left out."""
    if row.from_time is None or row.to_time is None or row.from_time >= since:
        return _events(row)
    width = (row.to_time - row.from_time) / max(len(row.spans), 1)
    return sum(n for at, (_, n) in enumerate(row.spans) if row.from_time + at * width >= since)


def _is_covered(rows: Sequence[ComparisonRow], bounds: Bounds) -> bool:
    """Goes an unbroken row of comparisons back to the period's begin, or further?"""
    placed = sorted((row for row in rows if row.from_lsn and row.to_lsn), key=lambda row: row.from_lsn or "")
    if not placed:
        # Without LSNs each comparison begins where both feeds begin.
        return bounds.begun is not None and bounds.begun <= bounds.since
    chain = placed[-1].from_lsn or ""
    for row in reversed(placed[:-1]):
        if (row.to_lsn or "") >= chain:
            chain = min(chain, row.from_lsn or "")
    return bounds.start is not None and chain <= bounds.start
