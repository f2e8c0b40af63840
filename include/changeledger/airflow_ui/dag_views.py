"""Redirects from Airflow's tabs of a DAG, a run or a task to the ledger's page about it."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import RedirectResponse

from changeledger.airflow_ui.access import MAY_SEE, Control
from changeledger.airflow_ui.rendering import root_of
from changeledger.config.settings import Settings
from changeledger.state.feeds import feeds_of

router = APIRouter(prefix="/dags/{dag_id}", dependencies=[MAY_SEE])

# DAGs of a database lead to the page Agreement.
_OF_DATABASES = ("compare_", "verify_")


@router.get("")
def dag(request: Request, dag_id: str) -> RedirectResponse:
    root = root_of(request)
    if dag_id in feeds_of(Settings().feeds).feeds:
        return RedirectResponse(f"{root}/feeds/{dag_id}")
    for prefix in _OF_DATABASES:
        if dag_id.startswith(prefix):
            return RedirectResponse(f"{root}/agreement/{quote(dag_id.removeprefix(prefix))}")
    if dag_id == "maintain":
        return RedirectResponse(f"{root}/")
    raise HTTPException(404, f"{dag_id} is not a DAG of the ledger: there is nothing to show.")


@router.get("/runs/{run_id}")
@router.get("/runs/{run_id}/tasks/{task_id}")
def run(request: Request, dag_id: str, run_id: str, control: Control) -> RedirectResponse:
    """Redirects to the window of the run, or to the feed if the run has no window yet."""
    window, feed = control.overview.window_of_run(dag_id, run_id), f"{root_of(request)}/feeds/{dag_id}"
    if window is not None:
        return RedirectResponse(f"{feed}/windows/{window}")
    if dag_id in feeds_of(Settings().feeds).feeds:
        return RedirectResponse(f"{feed}?run={quote(run_id, safe='')}")
    return dag(request, dag_id)
