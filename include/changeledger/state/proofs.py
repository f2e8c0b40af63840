"""Which proofs of a feed's tables stand."""

from __future__ import annotations

from collections.abc import Iterable

from changeledger.control.outcomes import standing_proofs
from changeledger.control.proofs import Proven


def proofs_by_feed(last: Iterable[Proven]) -> dict[str, list[str]]:
    """Outcomes of each feed's tables."""
    by_feed: dict[str, list[Proven]] = {}
    for row in last:
        by_feed.setdefault(row.feed, []).append(row)
    standing = {feed: standing_proofs(rows, lambda row: row.rows) for feed, rows in by_feed.items()}
    return {feed: [row.outcome for row in rows] for feed, rows in standing.items() if rows}
