"""Where a person can do something about a reason of a verdict: pages of the ledger, and DAGs of Airflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import quote, urlencode

from changeledger.reports.cutover import Link
from changeledger.state.cutover import CutoverFacts
from changeledger.state.verdict import Reason

_FINDINGS, _COMPARE, _PROVE, _PROOFS = "findings", "compare", "prove", "proofs"
_QUARANTINE, _TABLES, _FEED = "quarantine", "tables", "feed"
# By the rule, of those that a page can help with.
_PLACES: Final = {
    "lost": _FINDINGS, "surplus": _FINDINGS, "differs": _FINDINGS, "order": _FINDINGS, "accepted": _FINDINGS,
    "never_compared": _COMPARE, "table_never_compared": _COMPARE, "table_left_behind": _COMPARE,
    "compare_failed": _COMPARE, "stale": _COMPARE, "hole": _COMPARE, "uncompared": _COMPARE,
    "drift": _PROOFS,
    "no_proof": _PROVE, "proof_waits": _PROVE, "old_proof": _PROVE, "verify_failed": _PROVE,
    "quarantine": _QUARANTINE, "in_quarantine": _QUARANTINE,
    "lacking": _TABLES, "masks": _TABLES,
    "gap": _FEED, "run_failed": _FEED,
}  # fmt: skip


def links_of(root: str, facts: CutoverFacts) -> Callable[[Reason], Link | None]:
    """`root`: the address of the app."""
    database = quote(facts.database, safe="")
    pair = urlencode({"reference": facts.old.feed, "feed": facts.new.feed})
    agreement, dags = f"{root}/agreement/{database}", f"{root.removesuffix('/changeledger')}/dags"

    def link(reason: Reason) -> Link | None:
        place = _PLACES.get(reason.code)
        name = reason.feed or facts.new.feed
        feed = f"{root}/feeds/{quote(name, safe='')}"
        links = {
            _FINDINGS: Link(f"{agreement}?{pair}", "Findings, and accepting them"),
            _COMPARE: Link(f"{dags}/compare_{database}", "Compare now", is_airflows=True),
            _PROOFS: Link(f"{agreement}?{pair}#proofs", "See the proofs"),
            _PROVE: Link(f"{dags}/verify_{database}", "Prove now", is_airflows=True),
            _QUARANTINE: Link(f"{feed}/quarantine", "See the records, and replay them"),
            _TABLES: Link(f"{feed}#tables", "See the tables"),
            _FEED: Link(feed, f"See {name}"),
        }
        return None if place is None else links[place]

    return link
