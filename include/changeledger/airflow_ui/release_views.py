"""Views of a feed's releases, and taking one back."""

from __future__ import annotations

from typing import Annotated

from airflow.api_fastapi.logging.decorators import action_logging
from fastapi import APIRouter, Depends, Form, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from changeledger.airflow_ui import access, actions
from changeledger.airflow_ui.rendering import render, root_of
from changeledger.control.tables.feeds import WITHDRAWN
from changeledger.state.releases import release_states
from changeledger.state.resets import reset_state

router = APIRouter(prefix="/feeds/{dag_id}/releases", dependencies=[access.MAY_SEE])
# Writes to Airflow's audit log.
LOGGED = action_logging("changeledger_rollback")

_ON_A_PAGE = 20


@router.get("")
def releases(
    request: Request,
    feed: access.TheFeed,
    control: access.Control,
    may_trigger: access.MayTrigger,
    before: int | None = None,
) -> HTMLResponse:
    rows, resets = control.overview.rows_of(feed.feed, 1), control.resets.of_feed(feed.feed)
    states, older = release_states(control, feed.feed, before, _ON_A_PAGE, resets)
    return render(
        request,
        "releases.html.j2",
        feed=feed,
        releases=states,
        older=older,
        holder=rows.holder,
        reset=reset_state(control, feed.feed, rows),
        withdrawn=[row for row in resets if row.status == WITHDRAWN],
        may_trigger=may_trigger,
    )


@router.post("/{release}/main", dependencies=[access.FROM_THIS_PAGE, access.MAY_TRIGGER, Depends(LOGGED)])
def take_back(  # noqa: PLR0913, PLR0917 - what the form has
    request: Request,
    feed: access.TheFeed,
    release: int,
    user: access.UserName,
    reason: Annotated[str, Form()] = "",
    reads_again: Annotated[str, Form()] = "",
) -> RedirectResponse:
    """Rolls back: main of all tables becomes what the release published."""
    if not reason.strip():
        raise HTTPException(422, "Say why: the reason is kept with the release.")
    actions.roll_back(feed.feed, release, reason.strip(), user, bool(reads_again))
    return RedirectResponse(f"{root_of(request)}/feeds/{feed.feed}/releases", 303)
