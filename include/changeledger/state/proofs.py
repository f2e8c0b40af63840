"""Which proofs of a feed's tables stand."""

from __future__ import annotations

from collections.abc import Iterable

from changeledger.control.outcomes import PROVEN, SOURCE
from changeledger.control.overview import Proven


def proofs_by_feed(last: Iterable[Proven]) -> dict[str, list[str]]:
    """Outcomes of each feed's tables. A redelivering topic counts until the source has proved the table."""
    rows = list(last)
    proved = {(row.feed, row.table): row.at for row in rows if (row.against, row.outcome) == (SOURCE, PROVEN)}
    by_feed: dict[str, list[str]] = {}
    for row in rows:
        at = proved.get((row.feed, row.table))
        if row.against == SOURCE or (row.rows and (at is None or row.at > at)):
            by_feed.setdefault(row.feed, []).append(row.outcome)
    return by_feed
