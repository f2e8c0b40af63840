"""A row's life, do the feeds agree, and may we switch?"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse

from changeledger.airflow_ui.access import MAY_SEE, Control, TheFeed, VisibleFeeds
from changeledger.airflow_ui.rendering import render
from changeledger.compare import verdicts
from changeledger.config.database import Database, named_database
from changeledger.config.settings import Settings
from changeledger.model.errors import ConfigError
from changeledger.reports import cutover as report
from changeledger.state import agreement as of_agreement
from changeledger.state import cutover as of_cutover
from changeledger.state.beside import beside
from changeledger.state.cutover_json import as_json
from changeledger.state.life import life, placed
from changeledger.state.search import search
from changeledger.state.verdict import LEAST_EVENTS, judge

router = APIRouter()
# A column of the key in an address.
_KEY = "key."


@router.get("/feeds/{dag_id}/rows", dependencies=[MAY_SEE])
def rows(  # noqa: PLR0913, PLR0917 - what an address says
    request: Request,
    feed: TheFeed,
    control: Control,
    visible: VisibleFeeds,
    table: str = "",
    value: str = "",
    as_of: str = "",
) -> HTMLResponse:
    """A row by its key (`key.<column>=...`), or the keys that have a value."""
    key = {name.removeprefix(_KEY): text for name, text in request.query_params.items()
           if name.startswith(_KEY) and text}  # fmt: skip
    known: dict[str, Any] = {"place": None, "found": None, "row": None, "problem": None}
    settings = Settings()
    try:
        moment = _moment(as_of)
        if table:
            known["place"] = place = placed(control, feed.feed, table)
            if key:
                own = life(place, key)
                others = [f.feed for f in visible.values() if f.database == feed.database
                          and f.feed != feed.feed and f.table(table) is not None]  # fmt: skip
                known["row"] = beside(control, own, others, moment)
            elif value and settings.redact_values:
                raise ConfigError("values are hidden here, so rows cannot be found by them", "name the key")
            elif value:
                known["found"] = search(place, value)
    except ConfigError as error:
        known["problem"] = error
    tables = [config.table for config in feed.tables]
    asked = {"table": table, "key": key, "value": value, "as_of": as_of}
    return render(request, "row.html.j2", feed=feed, tables=tables, asked=asked, **known)


def _moment(text: str) -> datetime | None:
    """Without a zone it is UTC. Raises ConfigError if it is no time."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{text!r} is no time", "write it as 2026-01-31T12:00:00, in UTC") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _database(name: str, visible: VisibleFeeds) -> Database:
    """404 unless the user may see one of its feeds."""
    if not any(feed.database == name for feed in visible.values()):
        raise HTTPException(404, f"there is no feed of a database {name} that you may see")
    return named_database(Settings(), visible, name)


@router.get("/agreement")
@router.get("/cutover")
def databases(request: Request, visible: VisibleFeeds) -> HTMLResponse:
    """The databases that several feeds capture."""
    section = request.url.path.rpartition("/")[2]
    names = sorted({feed.database for feed in visible.values()})
    return render(request, "databases.html.j2", section=section, databases=names)


@router.get("/agreement/{database}")
def agreement(  # noqa: PLR0913, PLR0917 - what an address says
    request: Request,
    database: str,
    control: Control,
    visible: VisibleFeeds,
    comparison: str = "",
    verdict: str = "",
) -> HTMLResponse:
    of = _database(database, visible)
    feeds = {name for name, feed in visible.items() if feed.database == database}
    found = of_agreement.agreement(control, of, feeds)
    # An id that belongs to feeds which the user may not see is none.
    ids = {row.id for pair in found.pairs for row in pair.tables}
    shown = of_agreement.findings(comparison, verdict) if comparison in ids else []
    known: dict[str, Any] = {
        "faults": verdicts.FAULTS,
        "verdicts": verdicts.VERDICTS,
        "classes": verdicts.CLASSES,
    }
    return render(request, "agreement.html.j2", found=found, findings=shown, comparison=comparison,
                  verdict=verdict, most=of_agreement.MOST_FINDINGS, **known)  # fmt: skip


@router.get("/cutover/{database}", response_model=None)
def cutover(  # noqa: PLR0913, PLR0917 - what an address says
    request: Request,
    database: str,
    control: Control,
    visible: VisibleFeeds,
    old: str = "",
    new: str = "",
    days: float = 7,
    events: int = LEAST_EVENTS,
    json: bool = False,
) -> HTMLResponse | JSONResponse:
    of = _database(database, visible)
    names = sorted(name for name, feed in visible.items() if feed.database == database)
    body, problem = None, None
    if old and new:
        try:
            pair, period = of_cutover.pair_of(of, visible, old, new), of_cutover.last_days(days)
            facts = of_cutover.gather(control, of, visible, pair, period)
            verdict = judge(facts, events)
            if json:
                return JSONResponse(as_json(facts, verdict))
            body = report.body(facts, verdict)
        except ConfigError as error:
            problem = error
    asked = {"old": old, "new": new, "days": days, "events": events}
    return render(request, "cutover.html.j2", database=database, names=names, body=body, problem=problem,
                  asked=asked)  # fmt: skip
