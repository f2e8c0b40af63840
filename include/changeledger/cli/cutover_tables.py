"""Draws the answer of `cutover` for a terminal."""

from __future__ import annotations

from rich.table import Table

from changeledger.console import terminal
from changeledger.console.terminal import plain
from changeledger.model.wording import counted
from changeledger.state.cutover import CutoverFacts, FeedFacts
from changeledger.state.verdict import GO, NO_GO, NOT_YET, NOTE, Verdict, said

_COUNTS = ("events", "in_period", "equal", "lost", "surplus", "differs", "order")


def print_cutover(facts: CutoverFacts, verdict: Verdict) -> None:
    """Prints the verdict, then its reasons, then the numbers."""
    console = terminal.console()
    period = f"{facts.period.since:%Y-%m-%d %H:%M} to {facts.period.until:%Y-%m-%d %H:%M} UTC"
    console.print(
        plain(f"{facts.database}: may {facts.new.feed} replace {facts.old.feed}? {verdict.verdict.upper()}"),
        style={GO: "green", NOT_YET: "yellow", NO_GO: "red"}[verdict.verdict],
    )
    console.print(plain(f"from {period}"))
    for kind in (NO_GO, NOT_YET, NOTE):
        for reason in verdict.of(kind):
            console.print(plain(f"{kind}: {reason.text} ({reason.code}): {reason.action}"), soft_wrap=True)
    console.print(_tables(facts))
    console.print(_feeds(facts))


def _tables(facts: CutoverFacts) -> Table:
    grid = Table("table", *_COUNTS, "expected", "accepted", "covered", "proof")
    for name, table in sorted(facts.compared.tables.items()):
        proof = facts.proofs.get(name)
        accepted = sum(acceptance.differences for acceptance in table.accepted)
        cells = (
            table.table,
            *(f"{getattr(table, count):,}" for count in _COUNTS),
            f"{sum(table.expected.values()):,}",
            f"{accepted:,}",
            "yes" if table.is_covered and table.is_current else "no",
            "none" if proof is None else proof.outcome,
        )
        grid.add_row(*map(plain, cells))
    return grid


def _feeds(facts: CutoverFacts) -> Table:
    grid = Table("feed", "p50", "p95", "worst", "records", "quarantine", "masks", "gaps", "not compared yet")
    for feed in (facts.old, facts.new):
        masks = f"{len(feed.masks.proved)} proved, {len(feed.masks.unproved)} not proved"
        cells = (
            feed.feed, *_late(feed), f"{feed.records:,}", f"{feed.in_quarantine:,}", masks,
            counted(len(feed.gaps), "gap"), counted(feed.uncompared, "change"),
        )  # fmt: skip
        grid.add_row(*map(plain, cells))
    return grid


def _late(feed: FeedFacts) -> tuple[str, str, str]:
    late = feed.lateness
    return ("-", "-", "-") if late is None else (said(late.p50), said(late.p95), said(late.worst))
