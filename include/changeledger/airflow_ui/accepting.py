"""Accepting that a feed disagrees with another one, with a reason."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote, urlencode

from airflow.api_fastapi.logging.decorators import action_logging
from fastapi import APIRouter, Depends, Form, HTTPException, Request
from fastapi.responses import RedirectResponse

from changeledger.airflow_ui.access import FROM_THIS_PAGE, MAY_SEE, MAY_TRIGGER, Control, TheFeed, UserName
from changeledger.airflow_ui.rendering import root_of

router = APIRouter(prefix="/feeds/{dag_id}", dependencies=[MAY_SEE])
# In Airflow's audit log.
LOGGED = action_logging("changeledger_accept")


@router.post("/accept", dependencies=[FROM_THIS_PAGE, MAY_TRIGGER, Depends(LOGGED)])
def accept(  # noqa: PLR0913, PLR0917 - what the form has
    request: Request,
    feed: TheFeed,
    control: Control,
    user: UserName,
    reference: Annotated[str, Form()] = "",
    table: Annotated[str, Form()] = "",
    reason: Annotated[str, Form()] = "",
) -> RedirectResponse:
    """The next comparison begins behind what disagrees: in all tables of the feed, or in one."""
    if not reason.strip():
        raise HTTPException(422, "Say why: the reason is kept with the comparison.")
    if not control.comparisons.accept(feed.database, reason.strip(), user, feed.feed, table):
        raise HTTPException(409, "Nothing of it disagrees any more.")
    pair = urlencode({"reference": reference, "feed": feed.feed})
    root = root_of(request)
    return RedirectResponse(f"{root}/agreement/{quote(feed.database, safe='')}?{pair}#tables", 303)
