"""What was compared of two feeds, table by table, and for which time. What was not compared is not equal."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from changeledger.compare import verdicts
from changeledger.control import ComparisonRow, ControlStore
from changeledger.control.comparisons import Counted, TableReach, TableSums
from changeledger.control.tables.results import ACCEPTED


class Accepted(NamedTuple):
    """Differences that a person has accepted."""

    differences: int
    reason: str
    by: str


@dataclass(frozen=True)
class TableCompared:
    """The comparisons of one table that reach into a period. One that reaches out of it counts as a whole.

    `lost`: the feed in use has them and its successor does not. `surplus`: the other way round.
    """

    table: str
    # Compared effects, and those of them in the period, as far as known.
    events: int
    in_period: int
    equal: int
    # Expected differences by class (`compare.verdicts.CLASSES`), and values in another text.
    expected: Mapping[str, int]
    lost: int
    surplus: int
    differs: int
    order: int
    accepted: Sequence[Accepted]
    # The number of differing effects by column.
    columns: Mapping[str, int]
    since: datetime | None
    until: datetime | None
    # Whether an unbroken chain of comparisons begins before the period.
    is_covered: bool
    # Whether the last comparison ends where the last one of any table does.
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
    # When the last comparison with new changes ended, and up to which commit time it reached.
    last_run: datetime | None
    until: datetime | None

    def total(self, name: str) -> int:
        return sum(getattr(table, name) for table in self.tables.values())

    @property
    def expected(self) -> Mapping[str, int]:
        counts: Counter[str] = Counter()
        for table in self.tables.values():
            counts.update(table.expected)
        return counts


def pair_compared(
    control: ControlStore, database: str, pair: tuple[str, str], since: datetime
) -> PairCompared:
    """Returns what was compared. `pair`: the feed in use and its successor. Tables are in lower case."""
    reaches = control.comparisons.table_reaches(database, pair, since, verdicts.VERDICTS)
    start = max((reach.start for reach in reaches if reach.start), default=None)
    end = max((reach.end for reach in reaches if reach.end), default=None)
    begun = min((reach.begun for reach in reaches if reach.begun), default=None)
    parts = {} if start is None else control.comparisons.compared_parts(database, pair, start)
    sums = control.comparisons.table_sums(database, pair, since, _COUNTED)
    notable = control.comparisons.notable(database, pair, since, verdicts.DIFFERS)
    tables: defaultdict[str, _Compared] = defaultdict(_Compared)
    for reach in reaches:
        tables[reach.table.lower()].reaches.append(reach)
    for table, of_table in parts.items():
        tables[table.lower()].parts.extend(of_table)
    for row in sums:
        tables[row.table.lower()].sums.append(row)
    for comparison in notable:
        tables[comparison.table.lower()].notable.append(comparison)
    bounds = Bounds(pair[0], since, start, end, begun)
    return PairCompared(
        {name: _table(compared, bounds) for name, compared in tables.items()},
        begun,
        max((reach.at for reach in reaches), default=None),
        max((reach.until for reach in reaches if reach.until), default=None),
    )


_COUNTED: Final = Counted(verdicts.VERDICTS, verdicts.CLASSES)


@dataclass
class _Compared:
    """What the control store knows of one table.

    `reaches`: all of its comparisons. `parts`: the compared parts of the log after the period's begin.
    `sums`, `notable`: those of the comparisons that reach into the period.
    """

    reaches: list[TableReach] = field(default_factory=list)
    parts: list[tuple[str, str]] = field(default_factory=list)
    sums: list[TableSums] = field(default_factory=list)
    notable: list[ComparisonRow] = field(default_factory=list)


def _events(counts: Mapping[str, int]) -> int:
    return sum(counts[verdict] for verdict in verdicts.VERDICTS)


class Bounds(NamedTuple):
    """Bounds of a pair's comparisons.

    `old`: the feed in use. `since`: the period's begin. `start`: the last place in the log that is known to
    be before it (LSNs grow with time). `end`: the last place that was compared. `begun`: the first commit
    time that was compared.
    """

    old: str
    since: datetime
    start: str | None
    end: str | None
    begun: datetime | None


def _table(compared: _Compared, bounds: Bounds) -> TableCompared:
    end = max((reach.end for reach in compared.reaches if reach.end), default=None)
    counts: Counter[str] = Counter()
    columns: Counter[str] = Counter()
    accepted = []
    for row in compared.sums:
        counts.update(_of_successor(row, bounds.old))
    for comparison in compared.notable:
        if comparison.outcome == ACCEPTED:
            faults = sum(comparison.counts[fault] for fault in verdicts.FAULTS)
            said = comparison.accepted_reason or "", comparison.accepted_by or ""
            accepted.append(Accepted(faults, *said))
        else:
            columns.update({name: n.get(verdicts.DIFFERS, 0) for name, n in comparison.columns.items()})
    events = sum(_events(row.counts) for row in compared.sums)
    return TableCompared(
        compared.reaches[-1].table,
        events,
        events - sum(_before(comparison, bounds.since) for comparison in compared.notable),
        counts[verdicts.EQUAL],
        {name: counts[name] for name in (*verdicts.CLASSES, verdicts.REPRESENTATION)},
        counts[verdicts.MISSING],
        counts[verdicts.EXTRA],
        counts[verdicts.DIFFERS],
        counts[verdicts.ORDER],
        accepted,
        {name: number for name, number in columns.items() if number},
        min((row.since for row in compared.sums if row.since), default=None),
        max((row.until for row in compared.sums if row.until), default=None),
        _is_covered(compared.parts, end, bounds),
        end == bounds.end,
        sum(row.comparisons for row in compared.sums),
    )


def _of_successor(row: TableSums, old: str) -> Mapping[str, int]:
    """Returns the counts with the feed in use as the reference, without accepted differences."""
    counts = dict(row.counts)
    if row.is_accepted:
        counts |= dict.fromkeys(verdicts.FAULTS, 0)
    if row.reference != old:
        counts[verdicts.MISSING], counts[verdicts.EXTRA] = counts[verdicts.EXTRA], counts[verdicts.MISSING]
    return counts


def _before(row: ComparisonRow, since: datetime) -> int:
    """Returns how many effects may lie before the period. A span that begins before it counts as a whole."""
    if row.from_time is None or row.to_time is None or row.from_time >= since:
        return 0
    width = (row.to_time - row.from_time) / max(len(row.spans), 1)
    inside: int = sum(n for at, (_, n) in enumerate(row.spans) if row.from_time + at * width >= since)
    return _events(row.counts) - inside


def _is_covered(parts: Sequence[tuple[str, str]], end: str | None, bounds: Bounds) -> bool:
    """Returns whether an unbroken chain of comparisons goes back to the period's begin.

    `end`: where the table's last comparison ends.
    """
    if end is None:
        # Without LSNs, each comparison begins where both feeds begin.
        return bounds.begun is not None and bounds.begun <= bounds.since
    placed = sorted(parts)
    # Parts that are not in the list lie before the start.
    chain = placed[-1][0] if placed else end
    for begin, until in reversed(placed[:-1]):
        if until >= chain:
            chain = begin
    return bounds.start is not None and chain <= bounds.start
