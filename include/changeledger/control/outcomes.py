"""What comparisons and proofs come to, and which of them stand."""

from __future__ import annotations

from collections.abc import Iterable

from changeledger.control.results import Results
from changeledger.control.tables.results import ACCEPTED, AGREE, DIFFER, WARN, ProofRow

# Of a proof.
PROVEN, WAITING, DRIFTED = "proven", "waiting", "drift"

# What a feed is compared with: rows read of its source, or rows that its own topic sends again.
SOURCE, TOPIC = "source", "topic"


def worst_comparison(outcomes: Iterable[str]) -> str:
    """The gravest of the outcomes; AGREE if there are none."""
    return max(outcomes, key=(AGREE, WARN, ACCEPTED, DIFFER).index, default=AGREE)


def worst_proof(outcomes: Iterable[str]) -> str:
    """The gravest of the outcomes; PROVEN if there are none."""
    return max(outcomes, key=(PROVEN, WAITING, DRIFTED).index, default=PROVEN)


def last_proofs(control: Results, database: str) -> dict[str, list[ProofRow]]:
    """The last ones of each feed. A redelivering topic counts until the source has proved the table."""
    found = {}
    for feed, rows in control.last_proofs(database).items():
        proved = {row.table: row.at for row in rows if (row.against, row.outcome) == (SOURCE, PROVEN)}
        found[feed] = [
            row
            for row in rows
            # A topic that delivered nothing again has no outcome.
            if row.against == SOURCE
            or (row.counts["rows"] and (row.table not in proved or row.at > proved[row.table]))
        ]
    return {feed: rows for feed, rows in found.items() if rows}
