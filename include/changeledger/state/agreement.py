"""Do the feeds of a database agree? Over time, by verdict, table and column, with the findings behind each
number, and the proofs; and that the last run failed, where it did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from pyiceberg.expressions import And, BooleanExpression, EqualTo

from changeledger.compare.positions import said
from changeledger.config.database import Database
from changeledger.control import ComparisonRow, ControlStore, ProofRow
from changeledger.control.outcomes import last_proofs, worst_comparison
from changeledger.control.results import last_of
from changeledger.control.tables.failures import FailureRow
from changeledger.lake import catalog
from changeledger.model.table_names import FINDINGS

MOST_FINDINGS: Final = 200


@dataclass(frozen=True)
class Day:
    """The comparisons that ended on one day."""

    day: date
    counts: Mapping[str, int]


@dataclass(frozen=True)
class PairAgreement:
    """The reference and one feed. `tables`: the last comparison of each, and open disagreements."""

    reference: str
    feed: str
    outcome: str
    tables: Sequence[ComparisonRow]
    days: Sequence[Day]
    # How the changes of the two met, in sentences.
    positions: Sequence[str]


@dataclass(frozen=True)
class Agreement:
    database: str
    pairs: Sequence[PairAgreement]
    # Feeds that no comparison has.
    never: Sequence[str]
    proofs: Mapping[str, Sequence[ProofRow]]
    # Of the last comparison, and of the last proof, if they failed.
    failures: Sequence[FailureRow]


def agreement(control: ControlStore, database: Database, feeds: Collection[str]) -> Agreement:
    """Of these feeds alone, of whose pairs both are among them."""
    rows = control.comparisons(database.database)
    by_pair: dict[tuple[str, str], list[ComparisonRow]] = {}
    for row in rows:
        if row.reference in feeds and row.feed in feeds:
            by_pair.setdefault((row.reference, row.feed), []).append(row)
    last = last_of(rows)
    pairs = [_pair(pair, of_pair, last.get(pair, [])) for pair, of_pair in sorted(by_pair.items())]
    compared = {name for pair in by_pair for name in pair}
    failures = (control.failure(database.comparison), control.failure(database.verification))
    return Agreement(
        database.database,
        pairs,
        sorted(set(feeds) - compared),
        {feed: rows for feed, rows in last_proofs(control, database.database).items() if feed in feeds},
        [row for row in failures if row is not None],
    )


def _pair(
    pair: tuple[str, str], rows: Sequence[ComparisonRow], last: Sequence[ComparisonRow]
) -> PairAgreement:
    days: dict[date, Counter[str]] = {}
    for row in rows:
        days.setdefault(row.at.date(), Counter()).update(row.counts)
    return PairAgreement(
        *pair,
        worst_comparison(row.outcome for row in last),
        last,
        [Day(day, counts) for day, counts in sorted(days.items())],
        sorted({said(row.positions) for row in last if row.positions is not None}),
    )


def findings(comparison_id: str, verdict: str = "", most: int = MOST_FINDINGS) -> list[dict[str, Any]]:
    """Rows of `compare.findings.FINDING_COLUMNS` of one comparison, in the order of the log."""
    table = catalog.found(FINDINGS)
    if table is None:
        return []
    where: BooleanExpression = EqualTo("comparison_id", comparison_id)  # type: ignore[call-arg, arg-type]
    if verdict:
        where = And(where, EqualTo("verdict", verdict))  # type: ignore[call-arg, arg-type]
    rows = table.scan(where, limit=most).to_arrow().to_pylist()
    return sorted(rows, key=lambda row: (row["commit_lsn"] or b"", row["key"] or ""))
