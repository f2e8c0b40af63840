"""Who may see and do what: whatever Airflow allows of a feed's DAG. What to hand FastAPI as dependencies."""

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

# Of a route below /feeds/{dag_id}: the user may see the feed's DAG, or trigger it.
MAY_SEE = Depends(requires_access_dag("GET"))
MAY_TRIGGER = Depends(requires_access_dag("POST", DagAccessEntity.RUN))


class NothingHasRun(HTTPException):
    """Of a page that shows what runs have left."""

    def __init__(self) -> None:
        super().__init__(
            404, "No feed has run yet. Trigger the DAG of a feed, and come back when it has ended."
        )


def control_store() -> ControlStore:
    """Raises NothingHasRun where it would be made."""
    settings = Settings()
    if nothing_has_run(settings):
        raise NothingHasRun
    return ControlStore(settings.control_url)


def visible_feeds(user: GetUserDep) -> Mapping[str, Feed]:
    """The feeds whose DAGs the user may see, by name."""
    allowed = get_auth_manager().get_authorized_dag_ids(user=user, method="GET")
    return {name: feed for name, feed in feeds_of(Settings().feeds).feeds.items() if name in allowed}


def the_feed(dag_id: str) -> Feed:
    """The feed of a route below /feeds/{dag_id}. `MAY_SEE` of the route asks whether it may be seen."""
    feed = feeds_of(Settings().feeds).feeds.get(dag_id)
    if feed is None:
        raise HTTPException(
            404,
            f"{dag_id} is no feed, or its file cannot be read; the list of all feeds says which, and why",
        )
    return feed


def triggering(user: GetUserDep) -> Callable[[str], bool]:
    """Whether to show what `MAY_TRIGGER` allows, of any feed."""

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
    """What changes something must come from a page of this origin: forms elsewhere send the cookie, too.

    Every browser since 2023 says so in Sec-Fetch-Site; older ones say it in Origin.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin", "")
    is_ours = site == "same-origin" if site is not None else urlsplit(origin).netloc == request.url.netloc
    if not is_ours:
        raise HTTPException(403, "this must be asked for on the page itself")


FROM_THIS_PAGE = Depends(from_this_page)
Control = Annotated[ControlStore, Depends(control_store)]
VisibleFeeds = Annotated[Mapping[str, Feed], Depends(visible_feeds)]
TheFeed = Annotated[Feed, Depends(the_feed)]
UserName = Annotated[str, Depends(user_name)]
MayTrigger = Annotated[bool, Depends(may_trigger)]
MayTriggerFeed = Annotated[Callable[[str], bool], Depends(triggering)]
