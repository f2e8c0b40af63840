"""Views of a database: agreement of its feeds, accepting disagreements, and cutover."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, timedelta
from typing import Annotated, Any, Final
from urllib.parse import quote, urlencode

from airflow.api_fastapi.logging.decorators import action_logging
from fastapi import APIRouter, Depends, Form, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from changeledger.airflow_ui import access, charts, row_links
from changeledger.airflow_ui.rendering import render, root_of
from changeledger.compare import verdicts
from changeledger.config.database import Database, named_database
from changeledger.config.settings import Settings
from changeledger.control import ComparisonRow, ControlStore
from changeledger.control.comparisons import Day
from changeledger.control.outcomes import worst_comparison
from changeledger.model.errors import ConfigError
from changeledger.reports import cutover as report
from changeledger.state import agreement as of_agreement
from changeledger.state import cutover as of_cutover
from changeledger.state.cutover_json import as_json
from changeledger.state.feeds import feeds_of
from changeledger.state.verdict import LEAST_EVENTS, Reason, judge

router = APIRouter()
# Writes to Airflow's audit log.
LOGGED = action_logging("changeledger_accept")

# How many tables a list shows. Others can be searched for by name.
_TABLES = 100
_UNEXPLAINED, _EXPECTED, _EQUAL = "unexplained", "expected", "equal"
_SHADES = {_UNEXPLAINED: "c6", _EXPECTED: "c4", _EQUAL: "c1"}
# In hundredths of the picture's height, so that one difference among a million is visible.
_LEAST = {_UNEXPLAINED: 3.0}

# Where people can act on a reason of a verdict: pages of the ledger, and DAGs of Airflow.
_FINDINGS, _COMPARE, _PROVE, _PROOFS = "findings", "compare", "prove", "proofs"
_QUARANTINE, _OF_TABLES, _FEED = "quarantine", "tables", "feed"
# Those places by the rule's code, for rules that have one.
_PLACES: Final = {
    "lost": _FINDINGS, "surplus": _FINDINGS, "differs": _FINDINGS, "order": _FINDINGS, "accepted": _FINDINGS,
    "never_compared": _COMPARE, "table_never_compared": _COMPARE, "table_left_behind": _COMPARE,
    "compare_failed": _COMPARE, "stale": _COMPARE, "hole": _COMPARE, "uncompared": _COMPARE,
    "drift": _PROOFS,
    "no_proof": _PROVE, "proof_waits": _PROVE, "old_proof": _PROVE, "verify_failed": _PROVE,
    "quarantine": _QUARANTINE, "in_quarantine": _QUARANTINE,
    "lacking": _OF_TABLES, "masks": _OF_TABLES,
    "gap": _FEED, "run_failed": _FEED,
}  # fmt: skip

# How many days to look back, from the address.
Days = Annotated[int, Query(ge=1, le=3650)]


def _database(name: str, visible: access.VisibleFeeds) -> tuple[Database, list[str]]:
    """Returns the database and those of its feeds that the user may see. Raises 404 if there is none."""
    names = sorted(feed for feed, known in visible.items() if known.database == name)
    if not names:
        raise HTTPException(404, f"there is no feed of a database {name} that you may see")
    # With all feeds, because its file may name feeds that this user may not see.
    return named_database(Settings(), feeds_of(Settings().feeds).feeds, name), names


@router.get("/agreement", response_model=None)
@router.get("/cutover", response_model=None)
def databases(request: Request, visible: access.VisibleFeeds) -> Response:
    """Lists the databases of the feeds, or redirects to the only one."""
    section = request.url.path.rpartition("/")[2]
    names = sorted({feed.database for feed in visible.values()})
    if len(names) == 1:
        return RedirectResponse(f"{root_of(request)}/{section}/{quote(names[0], safe='')}")
    return render(request, "databases.html.j2", section=section, databases=names)


@router.get("/agreement/{database}")
def agreement(  # noqa: PLR0913, PLR0917 - what an address says
    request: Request,
    database: str,
    control: access.Control,
    visible: access.VisibleFeeds,
    may_trigger: access.MayTriggerFeed,
    reference: str = "",
    feed: str = "",
    comparison: str = "",
    verdict: str = "",
    days: Days = of_agreement.DAYS,
    tables: str = "",
) -> HTMLResponse:
    """Shows how feeds agree. `reference`, `feed`: the pair to show. `comparison`: whose findings to show."""
    of, feeds = _database(database, visible)
    # The id of a comparison of feeds that the user may not see counts as unknown.
    compared = of_agreement.comparison_of(control, comparison, feeds) if comparison else None
    wanted = (reference, feed) if compared is None else (compared.reference, compared.feed)
    known = of_agreement.agreement(control, of, feeds, wanted, days)
    rows = [] if known.shown is None else known.shown.tables
    named = [row for row in rows if tables.lower() in row.table.lower()]
    return render(
        request,
        "agreement.html.j2",
        known=known,
        chart=None if known.shown is None else _over_time(known.shown.days),
        rows=named[:_TABLES],
        of_all=len(rows),
        wanted=tables,
        days=days,
        compared=compared,
        verdict=verdict,
        findings=[] if compared is None else _findings(request, control, compared, verdict),
        most=of_agreement.MOST_FINDINGS,
        faults=verdicts.FAULTS,
        verdicts=verdicts.VERDICTS,
        most_tables=_TABLES,
        worst=worst_comparison,
        may_accept=known.shown is not None and may_trigger(known.shown.feed),
    )


@router.post(
    "/feeds/{dag_id}/accept",
    dependencies=[access.MAY_SEE, access.FROM_THIS_PAGE, access.MAY_TRIGGER, Depends(LOGGED)],
)
def accept(  # noqa: PLR0913, PLR0917 - what the form has
    request: Request,
    feed: access.TheFeed,
    control: access.Control,
    user: access.UserName,
    reference: Annotated[str, Form()] = "",
    table: Annotated[str, Form()] = "",
    reason: Annotated[str, Form()] = "",
) -> RedirectResponse:
    """Accepts what disagrees with the reference, in one table or all. The next comparison begins after it."""
    if not reason.strip():
        raise HTTPException(422, "Say why: the reason is kept with the comparison.")
    if not control.comparisons.accept(feed.database, reason.strip(), user, feed.feed, table, reference):
        raise HTTPException(409, "There is no disagreement left to accept.")
    pair, page = urlencode({"reference": reference, "feed": feed.feed}), f"{root_of(request)}/agreement"
    return RedirectResponse(f"{page}/{quote(feed.database, safe='')}?{pair}#tables", 303)


def _findings(
    request: Request, control: ControlStore, compared: ComparisonRow, verdict: str
) -> list[tuple[dict[str, Any], str | None]]:
    """Returns the findings, each with the address of its row."""
    root, redact = root_of(request), Settings().redact_values
    contract = control.contracts.of_feed(compared.reference, [compared.table]).get(compared.table)
    if contract is not None and contract.key != contract.published.key:
        # Findings have the source's names of the key, which is published differently: link by change.
        contract = None
    return [
        (finding, row_links.of_finding(root, finding, contract, redact=redact))
        for finding in of_agreement.findings(compared.id, verdict)
    ]


def _over_time(days: Sequence[Day]) -> charts.Chart | None:
    """Draws effects by the day on which they were compared, with a gap for a day without a comparison."""
    columns, known = [], dict(days)
    first, last = min(known, default=date.min), max(known, default=date.min)
    for day in (first + timedelta(days=at) for at in range((last - first).days + 1)):
        counts = known.get(day, dict.fromkeys(verdicts.VERDICTS, 0))
        values = {
            _UNEXPLAINED: _sum(counts, verdicts.FAULTS),
            _EXPECTED: _sum(counts, (verdicts.EXPECTED, verdicts.REPRESENTATION)),
            _EQUAL: _sum(counts, (verdicts.EQUAL,)),
        }
        parts = ", ".join(f"{number:,} {name}" for name, number in reversed(values.items()))
        title = f"{day}: {sum(values.values()):,} events compared, {parts}"
        columns.append(charts.Column("", f"{day}", title, values))
    return charts.stacked(columns, _SHADES, _LEAST)


def _sum(counts: Mapping[str, int], names: Collection[str]) -> int:
    return sum(counts[name] for name in names)


@router.get("/cutover/{database}", response_model=None)
def cutover(  # noqa: PLR0913, PLR0917 - what an address says
    request: Request,
    database: str,
    control: access.Control,
    visible: access.VisibleFeeds,
    old: str = "",
    new: str = "",
    days: float = 7,
    events: int = LEAST_EVENTS,
    json: bool = False,
) -> HTMLResponse | JSONResponse:
    of, names = _database(database, visible)
    body, problem = None, None
    if old and new:
        try:
            pair, period = of_cutover.pair_of(of, visible, old, new), of_cutover.last_days(days)
            facts = of_cutover.gather(control, of, visible, pair, period)
            verdict = judge(facts, events)
            if json:
                return JSONResponse(as_json(facts, verdict))
            body = report.body(facts, verdict, _links_of(root_of(request), facts))
        except ConfigError as error:
            problem = error
    # By default from the feed that the others are compared with, to one of the others.
    old = old or next((name for name in names if name == of.reference or visible[name].primary), names[0])
    new = new or next((name for name in names if name != old), old)
    asked = {"old": old, "new": new, "days": days, "events": events}
    return render(request, "cutover.html.j2", database=database, names=names, body=body, problem=problem,
                  asked=asked)  # fmt: skip


def _links_of(root: str, facts: of_cutover.CutoverFacts) -> Callable[[Reason], report.Link | None]:
    """Returns a function that links a reason to where people can act on it. `root`: the app's address."""
    database = quote(facts.database, safe="")
    pair = urlencode({"reference": facts.old.feed, "feed": facts.new.feed})
    agreement, dags = f"{root}/agreement/{database}", f"{root.removesuffix('/changeledger')}/dags"

    def link(reason: Reason) -> report.Link | None:
        place = _PLACES.get(reason.code)
        name = reason.feed or facts.new.feed
        feed = f"{root}/feeds/{quote(name, safe='')}"
        links = {
            _FINDINGS: report.Link(f"{agreement}?{pair}", "Findings, and accepting them"),
            _COMPARE: report.Link(f"{dags}/compare_{database}", "Compare now", is_airflows=True),
            _PROOFS: report.Link(f"{agreement}?{pair}#proofs", "See the proofs"),
            _PROVE: report.Link(f"{dags}/verify_{database}", "Prove now", is_airflows=True),
            _QUARANTINE: report.Link(f"{feed}/quarantine", "See the records, and replay them"),
            _OF_TABLES: report.Link(f"{feed}#tables", "See the tables"),
            _FEED: report.Link(feed, f"See {name}"),
        }
        return None if place is None else links[place]

    return link
