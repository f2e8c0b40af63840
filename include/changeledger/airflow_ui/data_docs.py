"""The Data Docs of audits as pages of Airflow: who may see a feed's DAG may see what its audits found."""

from __future__ import annotations

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.models import DagModel
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, HTMLResponse, Response
from starlette.exceptions import HTTPException as AnyHTTPException

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


@app.exception_handler(AnyHTTPException)
def problem(request: Request, error: AnyHTTPException) -> HTMLResponse:
    """A page, for it is a person who reads."""
    is_login = error.status_code == 401
    text = pages.problem(str(error.detail), request.scope.get("root_path", ""), is_login=is_login)
    return HTMLResponse(text, error.status_code, _HEADERS)


@app.get("/")
def index(user: GetUserDep) -> HTMLResponse:
    """The pages of all DAGs that the user may see."""
    root = Settings().data_docs
    folders = sorted(folder for folder in root.iterdir() if folder.is_dir()) if root.is_dir() else []
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
    root = Settings().data_docs.resolve()
    folder = (root / dag_id).resolve()
    if folder.parent != root or not folder.is_dir():
        raise HTTPException(404, _NOTHING)
    file = (folder / (path or pages.INDEX)).resolve()
    if file.is_relative_to(folder) and file.is_file():
        return FileResponse(file, headers=_HEADERS)
    if path:
        raise HTTPException(404, _NOTHING)
    return HTMLResponse(pages.of_dag(folder), headers=_HEADERS)
