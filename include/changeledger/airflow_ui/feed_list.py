"""The first view, with one line for each feed."""

from __future__ import annotations

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from changeledger.airflow_ui.access import VisibleFeeds
from changeledger.airflow_ui.rendering import render
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.state import overview
from changeledger.state.feeds import feeds_of
from changeledger.state.stores import nothing_has_run

router = APIRouter()


@router.get("/")
def feeds(request: Request, visible: VisibleFeeds, user: GetUserDep) -> HTMLResponse:
    settings = Settings()
    if nothing_has_run(settings):
        lines = overview.unread(visible)
    else:
        lines = overview.lines(ControlStore(settings.control_url), visible)
    # Only for users who may see import errors, because these name feeds and quote their files.
    sees_errors = get_auth_manager().is_authorized_view(access_view=AccessView.IMPORT_ERRORS, user=user)
    errors = feeds_of(settings.feeds).errors if sees_errors else ()
    return render(request, "feeds.html.j2", lines=lines, errors=errors, last=overview.LAST)
