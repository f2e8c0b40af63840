"""Airflow's runs, for which the ledger may have no window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NamedTuple

from airflow.models import DagModel, DagRun
from airflow.utils.session import create_session
from fastapi import Depends
from sqlalchemy import select


class RunState(NamedTuple):
    """A run of a DAG. `state`: empty if Airflow has no such run. `is_paused`: whether its DAG is paused."""

    id: str
    state: str
    is_paused: bool = False


# Finds a run by the DAG's id and its own.
FindRun = Callable[[str, str], RunState]


def find_run(dag_id: str, run_id: str) -> RunState:
    query = select(DagRun.state, DagModel.is_paused).join(DagModel, DagModel.dag_id == DagRun.dag_id)
    with create_session() as session:
        row = session.execute(query.where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)).first()
    return RunState(run_id, "") if row is None else RunState(run_id, str(row[0]), bool(row[1]))


def finding() -> FindRun:
    """Returns the function, as a FastAPI dependency."""
    return find_run


Finding = Annotated[FindRun, Depends(finding)]
