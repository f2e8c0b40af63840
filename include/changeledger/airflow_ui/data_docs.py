"""The Data Docs of audits as pages of Airflow: who may see a feed's DAG may see what its audits found."""

from __future__ import annotations

import mimetypes
from pathlib import PurePosixPath

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.models import DagModel
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, HTMLResponse, Response
from starlette.exceptions import HTTPException as AnyHTTPException

from changeledger.config.object_path import ObjectPath
from changeledger.config.settings import Settings
from changeledger.pages import data_docs as pages

app = FastAPI(title="Data Docs", docs_url=None, redoc_url=None, openapi_url=None)

# Pages of Great Expectations with values from sources: no part of Airflow's own origin.
_HEADERS = {
    "Content-Security-Policy": "sandbox allow-scripts allow-popups",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_NOTHING = "there are no Data Docs here: the audit has not run, or they were removed"
_LOST = "the pages cannot be read now: check the folder or store of CHANGELEDGER_PAGES, and try again"


@app.exception_handler(AnyHTTPException)
def problem(request: Request, error: AnyHTTPException) -> HTMLResponse:
    """A page, for it is a person who reads."""
    is_login = error.status_code == 401
    text = pages.problem(str(error.detail), request.scope.get("root_path", ""), is_login=is_login)
    return HTMLResponse(text, error.status_code, _HEADERS)


@app.exception_handler(OSError)
def lost(request: Request, _error: OSError) -> HTMLResponse:
    return problem(request, AnyHTTPException(503, _LOST))


@app.get("/")
def index(user: GetUserDep) -> HTMLResponse:
    """The pages of all DAGs that the user may see."""
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
    return HTMLResponse(pages.of_all(seen), headers=_HEADERS)


# The DAG is named after its feed, or its comparison, whose folder it is. A mounted app has no login.
@app.get("/{dag_id}/{path:path}", dependencies=[Depends(requires_access_dag("GET"))])
def page(dag_id: str, path: str) -> Response:
    root = Settings().data_docs
    if isinstance(root, ObjectPath):
        return _stored(root, dag_id, path)
    root = root.resolve()
    folder = (root / dag_id).resolve()
    if folder.parent != root or not folder.is_dir():
        raise HTTPException(404, _NOTHING)
    file = (folder / (path or pages.INDEX)).resolve()
    if file.is_relative_to(folder) and file.is_file():
        return FileResponse(file, headers=_HEADERS)
    if path:
        raise HTTPException(404, _NOTHING)
    return HTMLResponse(pages.of_dag(folder), headers=_HEADERS)


def _stored(root: ObjectPath, dag_id: str, path: str) -> Response:
    """A page of a store, in which `..` is a name like any other: it names no folder here."""
    folder, place = root / dag_id, PurePosixPath(path)
    if {"..", "."} & {dag_id, *path.split("/")} or "/" in dag_id or place.is_absolute():
        raise HTTPException(404, _NOTHING)
    file = folder / (path or pages.INDEX)
    try:
        content = file.read_bytes()
    except (FileNotFoundError, IsADirectoryError):
        if path or not folder.is_dir():
            raise HTTPException(404, _NOTHING) from None
        return HTMLResponse(pages.of_dag(folder), headers=_HEADERS)
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return Response(content, media_type=kind, headers=_HEADERS)
