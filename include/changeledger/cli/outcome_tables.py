"""Draws the last comparisons and proofs of a database for a terminal."""

from __future__ import annotations

from rich.table import Table

from changeledger.cli.lake import control_store
from changeledger.compare.verdicts import VERDICTS
from changeledger.console.terminal import plain
from changeledger.control.outcomes import last_proofs
from changeledger.stages.verification import proofs


def drawn_comparison(database: str) -> Table:
    """Draws the last comparison of each table and pair of feeds."""
    grid = Table("reference", "feed", "table", "outcome", *VERDICTS, title=f"{database}: do its feeds agree?")
    for pair, rows in control_store().comparisons.last(database).items():
        for row in rows:
            counts = (f"{row.counts[v]:,}" for v in VERDICTS)
            grid.add_row(*map(plain, (*pair, row.table, row.outcome, *counts)))
    return grid


def drawn_proofs(database: str) -> Table:
    """Draws the last proof of each table."""
    title = f"{database}: does the published data match the source?"
    grid = Table("feed", "table", "against", "outcome", *proofs.COUNTED, "read", title=title)
    for feed, rows in last_proofs(control_store().proofs, database).items():
        for row in rows:
            counts = (f"{row.counts[name]:,}" for name in proofs.COUNTED)
            until = f"{row.until:%Y-%m-%d %H:%M:%S}"
            grid.add_row(*map(plain, (feed, row.table, row.against, row.outcome, *counts, until)))
    return grid
