"""Facts about how the feeds of a database agree.

These are comparisons over time, by verdict, table and column, with the findings behind each number; proofs;
and the failure of the last run, if it has failed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyiceberg.expressions import And

from changeledger.compare.positions import said
from changeledger.compare.verdicts import VERDICTS
from changeledger.config.database import Database
from changeledger.control import ComparisonRow, ControlStore, ProofRow
from changeledger.control.comparisons import Day, PairOutcome
from changeledger.control.outcomes import GRAVITY, last_proofs, worst_comparison
from changeledger.control.tables.feeds import FailureRow
from changeledger.lake import catalog
from changeledger.lake.conditions import is_equal
from changeledger.model.table_names import FINDINGS

MOST_FINDINGS: Final = 200
# How many days to look back by default.
DAYS: Final = 31


@dataclass(frozen=True)
class PairAgreement:
    """How the reference and one feed agree.

    `tables`: the last comparison of each table and open disagreements, first those that need attention.
    """

    reference: str
    feed: str
    outcome: str
    tables: Sequence[ComparisonRow]
    days: Sequence[Day]
    # Sentences on how the changes of the two feeds were matched.
    positions: Sequence[str]


@dataclass(frozen=True)
class Agreement:
    """How the feeds of a database agree.

    `pairs`: the gravest first. `shown`: one of them. `proofs`: those of its feeds, or of all feeds if None.
    """

    database: str
    pairs: Sequence[PairOutcome]
    shown: PairAgreement | None
    # Feeds without a comparison.
    never: Sequence[str]
    proofs: Mapping[str, Sequence[ProofRow]]
    # The failures of the last comparison and of the last proof, if they failed.
    failures: Sequence[FailureRow]


def agreement(
    control: ControlStore,
    database: Database,
    feeds: Collection[str],
    wanted: tuple[str, str] | None = None,
    days: int = DAYS,
) -> Agreement:
    """Returns how these feeds agree. Pairs with a feed that is not among them are left out.

    `wanted`: the pair to show, in either order. If there is no such pair, a pair of its second feed is shown,
    else the gravest. `days`: how many days to look back.
    """
    pairs = [
        p
        for p in control.comparisons.pair_outcomes([database.database])
        if {p.reference, p.feed} <= set(feeds)
    ]
    pairs.sort(key=lambda pair: -GRAVITY.index(worst_comparison(pair.outcomes)))
    known = [(pair.reference, pair.feed) for pair in pairs]
    either = () if wanted is None else (wanted, wanted[::-1])
    of_feed = [] if wanted is None else [pair for pair in known if wanted[1] in pair]
    chosen = next((pair for pair in (*either, *of_feed, *known) if pair in known), None)
    shown = None if chosen is None else _pair(control, database.database, chosen, days)
    failures = (
        control.failures.of_feed(database.comparison),
        control.failures.of_feed(database.verification),
    )
    return Agreement(
        database.database,
        pairs,
        shown,
        sorted(set(feeds) - {name for pair in known for name in pair}),
        last_proofs(control.proofs, database.database, chosen or feeds),
        [row for row in failures if row is not None],
    )


def _pair(control: ControlStore, database: str, pair: tuple[str, str], days: int) -> PairAgreement:
    rows = control.comparisons.last(database, pair).get(pair, [])
    since = datetime.now(UTC) - timedelta(days=days)
    return PairAgreement(
        *pair,
        worst_comparison(row.outcome for row in rows),
        sorted(rows, key=lambda row: (-GRAVITY.index(row.outcome), row.table, row.at)),
        control.comparisons.days(database, pair, since, VERDICTS),
        sorted({said(row.positions) for row in rows if row.positions is not None}),
    )


def comparison_of(control: ControlStore, id: str, feeds: Collection[str]) -> ComparisonRow | None:
    """Returns the comparison, or None unless both of its feeds are among these."""
    row = control.comparisons.of_id(id)
    return row if row is not None and {row.reference, row.feed} <= set(feeds) else None


def findings(comparison_id: str, verdict: str = "") -> list[dict[str, Any]]:
    """Returns rows of `compare.findings.FINDING_COLUMNS` of one comparison, in the order of the log."""
    table = catalog.find(FINDINGS)
    if table is None:
        return []
    where = is_equal("comparison_id", comparison_id)
    if verdict:
        where = And(where, is_equal("verdict", verdict))
    rows = table.scan(where, limit=MOST_FINDINGS).to_arrow().to_pylist()
    return sorted(rows, key=lambda row: (row["commit_lsn"] or b"", row["key"] or ""))
