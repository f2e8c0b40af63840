"""Serves the Data Docs of audits in Airflow. Whoever may see a feed's DAG may see what its audits found."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable
from html import escape
from pathlib import PurePosixPath
from urllib.parse import quote

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.models import DagModel
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, HTMLResponse, Response
from starlette.exceptions import HTTPException as AnyHTTPException

from changeledger.config.object_path import ObjectPath, PagePath
from changeledger.config.settings import Settings
from changeledger.model.window import times_of
from changeledger.pages.html import stylesheet

# The page of a comparison or of proofs, and the page of an audit in its window's folder.
_INDEX, _AUDIT = "index.html", "audit.html"
_MOST = 50
_FEW = 3
_META = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
_NONE = "Nothing has written a page yet."

app = FastAPI(title="Data Docs", docs_url=None, redoc_url=None, openapi_url=None)

# The sandbox keeps these pages, with values from sources, out of Airflow's own origin.
_HEADERS = {
    "Content-Security-Policy": "sandbox allow-scripts allow-popups",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_NOTHING = "there are no Data Docs here: the audit has not run, or the pages were removed"
_LOST = "the pages cannot be read now: check the folder or store of CHANGELEDGER_PAGES, and try again"


@app.exception_handler(AnyHTTPException)
def problem(request: Request, error: AnyHTTPException) -> HTMLResponse:
    """Returns a page, because people read it."""
    is_login = error.status_code == 401
    text = _problem(str(error.detail), request.scope.get("root_path", ""), is_login=is_login)
    return HTMLResponse(text, error.status_code, _HEADERS)


@app.exception_handler(OSError)
def lost(request: Request, _error: OSError) -> HTMLResponse:
    return problem(request, AnyHTTPException(503, _LOST))


@app.get("/")
def index(user: GetUserDep) -> HTMLResponse:
    """Lists the pages of all DAGs that the user may see."""
    root = Settings().data_docs
    folders = sorted((f for f in root.iterdir() if f.is_dir()), key=str) if root.is_dir() else []
    seen = [
        folder
        for folder in folders
        if get_auth_manager().is_authorized_dag(
            method="GET",
            details=DagDetails(id=folder.name, team_name=DagModel.get_team_name(folder.name)),
            user=user,
        )
    ]
    return HTMLResponse(_of_all(seen), headers=_HEADERS)


# The folder is named like the DAG. The dependency checks the login, because a mounted app has none.
@app.get("/{dag_id}/{path:path}", dependencies=[Depends(requires_access_dag("GET"))])
def page(dag_id: str, path: str) -> Response:
    root = Settings().data_docs
    if isinstance(root, ObjectPath):
        return _stored(root, dag_id, path)
    root = root.resolve()
    folder = (root / dag_id).resolve()
    if folder.parent != root or not folder.is_dir():
        raise HTTPException(404, _NOTHING)
    file = (folder / (path or _INDEX)).resolve()
    if file.is_relative_to(folder) and file.is_file():
        return FileResponse(file, headers=_HEADERS)
    if path:
        raise HTTPException(404, _NOTHING)
    return HTMLResponse(_of_dag(folder), headers=_HEADERS)


def _stored(root: ObjectPath, dag_id: str, path: str) -> Response:
    """Returns a page from an object store. Refuses `..`, which is a name like any other there."""
    folder, place = root / dag_id, PurePosixPath(path)
    if {"..", "."} & {dag_id, *path.split("/")} or "/" in dag_id or place.is_absolute():
        raise HTTPException(404, _NOTHING)
    file = folder / (path or _INDEX)
    try:
        content = file.read_bytes()
    except (FileNotFoundError, IsADirectoryError):
        if path or not folder.is_dir():
            raise HTTPException(404, _NOTHING) from None
        return HTMLResponse(_of_dag(folder), headers=_HEADERS)
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return Response(content, media_type=kind, headers=_HEADERS)


def _of_all(folders: Iterable[PagePath]) -> str:
    parts = []
    for folder in folders:
        place = f"{quote(folder.name)}/"
        heading = f'<h2><a href="{place}">{escape(folder.name)}</a></h2>'
        parts.append(f"{heading}\n{_listed(_links(folder, place)[:_FEW])}")
    return _page("Data Docs", "\n".join(parts) or f"<p>{_NONE}</p>")


def _of_dag(folder: PagePath) -> str:
    up = '<p><a href="../">All Data Docs</a></p>'
    return _page(f"Data Docs of {folder.name}", f"{up}\n{_listed(_links(folder, '')[:_MOST])}")


def _problem(text: str, root: str, *, is_login: bool) -> str:
    """Returns a page for an error. `root`: the path of all Data Docs."""
    link = '<a href="/">Log in to Airflow</a>' if is_login else f'<a href="{escape(root)}/">All Data Docs</a>'
    return _page("Data Docs", f"<p>{escape(text)}</p>\n<p>{link}</p>")


def _links(folder: PagePath, prefix: str) -> list[tuple[str, str]]:
    """Returns address and name of each page."""
    if (folder / _INDEX).is_file():
        return [(prefix + _INDEX, "the last one")]
    return [(f"{prefix}{quote(name)}/{_AUDIT}", _window(name)) for name in _audited(folder)]


def _audited(folder: PagePath) -> list[str]:
    """Returns window ids, newest page first.

    In an object store they are in the order of the ids, because the time of each page would need a request.
    """
    if isinstance(folder, ObjectPath):
        return sorted((window.name for window in folder.iterdir()), reverse=True)
    pages = sorted(folder.glob(f"*/{_AUDIT}"), key=lambda page: page.stat().st_mtime, reverse=True)
    return [page.parent.name for page in pages]


def _window(name: str) -> str:
    """Returns a window's id in readable form."""
    times = times_of(name)
    if times is None:
        return name
    since, until = (f"{at:%Y-%m-%d %H:%M}" for at in times)
    return f"{since} to {until} UTC{', read again' if name.count('_') > 1 else ''}"


def _listed(links: list[tuple[str, str]]) -> str:
    lines = (f'<li><a href="{escape(address)}">{escape(name)}</a></li>' for address, name in links)
    return "<ul>\n{}\n</ul>".format("\n".join(lines)) if links else f"<p>{_NONE}</p>"


def _page(title: str, body: str) -> str:
    head = f"<title>{escape(title)}</title>\n<style>{stylesheet()}</style>"
    body = f"<main>\n<h1>{escape(title)}</h1>\n{body}\n</main>"
    return f'<!doctype html>\n<html lang="en"><head>{_META}{head}</head>\n<body>{body}\n</body></html>\n'
