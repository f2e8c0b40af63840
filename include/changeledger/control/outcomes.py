"""Outcomes of comparisons and proofs, and which proofs stand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, TypeVar

from changeledger.control.base import grouped
from changeledger.control.proofs import Proofs, Proven
from changeledger.control.tables.results import ACCEPTED, AGREE, DIFFER, WARN, ProofRow

Of = TypeVar("Of", ProofRow, Proven)

# Outcomes of a proof.
PROVEN, WAITING, DRIFTED = "proven", "waiting", "drift"

# What a feed is compared with: rows read from its source, or rows that its own topic sends again.
SOURCE, TOPIC = "source", "topic"


# Outcomes of a comparison, the mildest first.
GRAVITY: Final = (AGREE, WARN, ACCEPTED, DIFFER)


def worst_comparison(outcomes: Iterable[str]) -> str:
    """Returns the gravest of the outcomes; AGREE if there are none."""
    return max(outcomes, key=GRAVITY.index, default=AGREE)


def worst_proof(outcomes: Iterable[str]) -> str:
    """Returns the gravest of the outcomes; PROVEN if there are none."""
    return max(outcomes, key=(PROVEN, WAITING, DRIFTED).index, default=PROVEN)


def last_proofs(
    proofs: Proofs, database: str, feeds: Collection[str] | None = None
) -> dict[str, list[ProofRow]]:
    """Returns the last proofs by feed, of all feeds or of these.

    A proof against the topic counts only until a later one against the source has proved the table.
    """
    standing = {
        feed: _standing(rows, lambda row: row.counts["rows"])
        for feed, rows in proofs.last(database, feeds).items()
    }
    return {feed: rows for feed, rows in standing.items() if rows}


def last_outcomes(proofs: Proofs, databases: Iterable[str], feed: str = "") -> dict[str, list[str]]:
    """Returns the outcomes of `last_proofs` by feed, for a page that shows nothing else of them."""
    by_feed = grouped((row.feed, row) for row in proofs.last_proven(databases, feed))
    standing = {name: _standing(rows, lambda row: row.rows) for name, rows in by_feed.items()}
    return {name: [row.outcome for row in rows] for name, rows in standing.items() if rows}


def _standing(proofs: Sequence[Of], delivered: Callable[[Of], int]) -> list[Of]:
    """Returns those of a feed's last proofs that stand. `delivered`: the number of rows of a proof."""
    proved = {row.table: row.at for row in proofs if (row.against, row.outcome) == (SOURCE, PROVEN)}
    return [
        row
        for row in proofs
        # A proof against a topic that delivered nothing again has no outcome.
        if row.against == SOURCE
        or (delivered(row) and (row.table not in proved or row.at > proved[row.table]))
    ]
