"""FastAPI dependencies for permissions. Users may see and do what Airflow allows them on a feed's DAG."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.models import DagModel
from fastapi import Depends, HTTPException, Request

from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.state.feeds import feeds_of
from changeledger.state.stores import nothing_has_run

# For routes below /feeds/{dag_id}: require that the user may see, or trigger, the feed's DAG.
MAY_SEE = Depends(requires_access_dag("GET"))
MAY_TRIGGER = Depends(requires_access_dag("POST", DagAccessEntity.RUN))


class NothingHasRun(HTTPException):
    """The answer of pages that show results of runs, while there is none."""

    def __init__(self) -> None:
        text = "No feed has run yet. Trigger the DAG of a feed, and come back when it has ended."
        super().__init__(404, text)


def control_store() -> ControlStore:
    """Returns the control store. Raises NothingHasRun if opening it would create it."""
    settings = Settings()
    if nothing_has_run(settings):
        raise NothingHasRun
    return ControlStore(settings.control_url)


def visible_feeds(user: GetUserDep) -> Mapping[str, Feed]:
    """Returns the feeds whose DAGs the user may see, by name."""
    allowed = get_auth_manager().get_authorized_dag_ids(user=user, method="GET")
    return {name: feed for name, feed in feeds_of(Settings().feeds).feeds.items() if name in allowed}


def the_feed(dag_id: str) -> Feed:
    """Returns the feed of a route below /feeds/{dag_id}. The route's `MAY_SEE` checks the permission."""
    feed = feeds_of(Settings().feeds).feeds.get(dag_id)
    if feed is None:
        why = "is not a feed, or its file cannot be read: the list of all feeds says why"
        raise HTTPException(404, f"{dag_id} {why}")
    return feed


def triggering(user: GetUserDep) -> Callable[[str], bool]:
    """Returns a function that says whether the user may trigger a feed, to show or hide actions."""

    def is_allowed(dag_id: str) -> bool:
        return get_auth_manager().is_authorized_dag(
            method="POST",
            access_entity=DagAccessEntity.RUN,
            details=DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id)),
            user=user,
        )

    return is_allowed


def may_trigger(may_trigger_feed: Annotated[Callable[[str], bool], Depends(triggering)], dag_id: str) -> bool:
    return may_trigger_feed(dag_id)


def user_name(user: GetUserDep) -> str:
    return str(user.get_name())


def from_this_page(request: Request) -> None:
    """Refuses a changing request that does not come from a page of this origin.

    Forms elsewhere send the cookie, too. Every browser since 2023 sends Sec-Fetch-Site; older ones send
    Origin.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin", "")
    is_ours = site == "same-origin" if site is not None else urlsplit(origin).netloc == request.url.netloc
    if not is_ours:
        raise HTTPException(403, "ask for this on the page itself")


FROM_THIS_PAGE = Depends(from_this_page)
Control = Annotated[ControlStore, Depends(control_store)]
VisibleFeeds = Annotated[Mapping[str, Feed], Depends(visible_feeds)]
TheFeed = Annotated[Feed, Depends(the_feed)]
UserName = Annotated[str, Depends(user_name)]
MayTrigger = Annotated[bool, Depends(may_trigger)]
MayTriggerFeed = Annotated[Callable[[str], bool], Depends(triggering)]
