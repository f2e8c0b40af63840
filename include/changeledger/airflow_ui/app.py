"""The app with the ledger's pages, which Airflow serves below `/changeledger`, behind its login."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException as AnyHTTPException

from changeledger.airflow_ui import (
    dag_views,
    database_views,
    feed_list,
    feed_views,
    quarantine_views,
    release_views,
    row_views,
)
from changeledger.airflow_ui.access import NothingHasRun
from changeledger.airflow_ui.rendering import render, root_of, static
from changeledger.model.errors import ChangeledgerError, SourceUnavailable
from changeledger.pages.html import stylesheet

PREFIX = "/changeledger"
_KEPT = {"Cache-Control": "max-age=86400", "X-Content-Type-Options": "nosniff"}

app = FastAPI(title="changeledger", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
# Each module of views has a router. Addresses are relative to PREFIX.
for views in (feed_list, feed_views, quarantine_views, release_views, row_views, database_views, dag_views):
    app.include_router(views.router)


# Served without a login, because they show nothing about the feeds.
@app.get("/style.css")
def style() -> Response:
    return Response(stylesheet(), media_type="text/css", headers=_KEPT)


@app.get("/icon.svg")
def icon(request: Request) -> Response:
    """Returns the icon for Airflow's navigation, in a variant for dark mode.

    Airflow has no variant for the selected page. In light mode its background is pale, or dark if selected,
    so the lines have a background of their own.
    """
    lines, ground = ("#d4d8dd", "none") if "dark" in request.query_params else ("#3f4650", "#ffffff")
    text = static("icon.svg").replace("currentColor", lines).replace("transparent", ground)
    return Response(text, media_type="image/svg+xml", headers=_KEPT)


@app.exception_handler(AnyHTTPException)
def refused(request: Request, error: AnyHTTPException) -> Response:
    """Returns a page, because people read it. Redirects an address with a superfluous final slash.

    The redirect is relative: behind a proxy FastAPI would redirect to `http:`, which a frame of an `https:`
    page does not show.
    """
    *_, last, end = request.url.path.split("/")
    if error.status_code == HTTPStatus.NOT_FOUND and not end and request.url.path != f"{root_of(request)}/":
        query = request.url.query
        return RedirectResponse(f"../{last}{'?' if query else ''}{query}")
    title = "Nothing to show yet" if isinstance(error, NothingHasRun) else ""
    return _problem(request, error.status_code, str(error.detail), title=title)


@app.exception_handler(RequestValidationError)
def not_understood(request: Request, error: RequestValidationError) -> HTMLResponse:
    names = ", ".join(".".join(map(str, problem["loc"][1:])) for problem in error.errors())
    return _problem(request, 422, f"this is not valid: {names}")


@app.exception_handler(ChangeledgerError)
def failed(request: Request, error: ChangeledgerError) -> HTMLResponse:
    """Returns a page for errors such as a control store that does not answer, or a release that is gone."""
    status = 503 if isinstance(error, SourceUnavailable) else 409
    return _problem(request, status, error.message, error.remedy)


def _problem(request: Request, status: int, text: str, remedy: str = "", title: str = "") -> HTMLResponse:
    return render(request, "problem.html.j2", status=status, text=text, remedy=remedy, title=title)
