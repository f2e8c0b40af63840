"""Quarantined records as they came, how they would be read now, and asking for a replay."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from airflow.api_fastapi.logging.decorators import action_logging
from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from changeledger.airflow_ui.access import (
    FROM_THIS_PAGE,
    MAY_SEE,
    MAY_TRIGGER,
    Control,
    MayTrigger,
    TheFeed,
    UserName,
)
from changeledger.airflow_ui.actions import Triggering
from changeledger.airflow_ui.quarantined import shown
from changeledger.airflow_ui.rendering import render, root_of
from changeledger.state import quarantine
from changeledger.state.reasons import REASONS
from changeledger.state.windows import failed_of, last_stored, window_states

router = APIRouter(prefix="/feeds/{dag_id}", dependencies=[MAY_SEE])
# In Airflow's audit log.
LOGGED = action_logging("changeledger_replay")

_ON_A_PAGE = 20


@router.get("/quarantine")
def records(  # noqa: PLR0913, PLR0917 - what the address has
    request: Request,
    feed: TheFeed,
    control: Control,
    may_trigger: MayTrigger,
    table: str | None = None,
    reason: str | None = None,
    run: str | None = None,
) -> HTMLResponse:
    chosen = quarantine.Chosen(table, reason, run)
    rows = quarantine.records(feed, chosen, _ON_A_PAGE)
    of_last = control.overview.rows_of(feed.feed, 1)
    latest = last_stored(window_states(of_last))
    return render(
        request,
        "quarantine.html.j2",
        feed=feed,
        chosen=chosen,
        quarantine=quarantine.summary(feed, quarantine.MOST),
        records=shown(feed, control, rows),
        reasons=REASONS,
        latest=latest,
        failed=failed_of(of_last, latest),
        most=_ON_A_PAGE,
        may_trigger=may_trigger,
        waits=control.resets.pending(feed.feed) is not None,
    )


@router.post("/replay", dependencies=[FROM_THIS_PAGE, MAY_TRIGGER, Depends(LOGGED)])
def replay(
    request: Request,
    feed: TheFeed,
    user: UserName,
    trigger: Triggering,
    table: Annotated[list[str] | None, Form()] = None,
) -> RedirectResponse:
    """Triggers the feed's DAG as its form does, and leads to what the run does."""
    tables = [config.table for config in feed.only(table or []).tables] if table else None
    run = trigger(feed.feed, {"mode": "replay", "tables": tables}, user)
    root = root_of(request)
    return RedirectResponse(f"{root}/dags/{feed.feed}/runs/{quote(run, safe='')}", 303)
