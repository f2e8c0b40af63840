"""The answer of cutover as a page that people can print and sign, in one file or within another page."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from changeledger.compare import verdicts
from changeledger.pages import html
from changeledger.state import verdict as rules
from changeledger.state.cutover import CutoverFacts
from changeledger.state.verdict import Reason, Verdict

_TEMPLATES = Path(__file__).parent / "templates"
_SAYS = {
    rules.GO: "Nothing speaks against it",
    rules.NOT_YET: "Not enough is known yet",
    rules.NO_GO: "The successor is wrong, or lacks something",
}
_KINDS = {
    verdicts.NOT_CAPTURED: "one tool does not send a cell or an image that the other has",
    verdicts.NO_OP_UPDATE: "an update that changed nothing, which some tools do not write",
    verdicts.SPLIT_UPDATE: "one feed has an update, the other a delete and an insert",
    verdicts.ORDER_UNKNOWN: "both have the change; their positions cannot be compared",
    verdicts.COMMIT_TIME: "both have the change; its commit times are more than 5 seconds apart",
    verdicts.REPRESENTATION: "the same value, written differently",
}


class Link(NamedTuple):
    """A link to the app around the page. `is_airflows`: it leads to a page of Airflow."""

    address: str
    text: str
    is_airflows: bool = False


def body(
    facts: CutoverFacts, verdict: Verdict, link: Callable[[Reason], Link | None] = lambda _: None
) -> str:
    """Returns escaped HTML for a page that has a style for it.

    `link` returns where people can act on a reason.
    """
    known = {
        "facts": facts,
        "verdict": verdict,
        "rules": rules,
        "link": link,
        "says": _SAYS[verdict.verdict],
        "kinds": _KINDS,
        "span": rules.said,
        "at": _at,
    }
    return html.rendered(_TEMPLATES / "cutover_body.html.j2", known)


def page(facts: CutoverFacts, verdict: Verdict) -> str:
    """Returns a page in one HTML file, which fetches nothing."""
    known = {"facts": facts, "body": body(facts, verdict)}
    return html.rendered(_TEMPLATES / "cutover.html.j2", known)


def _at(moment: datetime | None) -> str:
    return "-" if moment is None else f"{moment:%Y-%m-%d %H:%M} UTC"
