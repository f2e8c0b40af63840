"""Airflow's runs, for which the ledger may have no window."""

from __future__ import annotations

from typing import NamedTuple

from airflow.models import DagModel, DagRun
from airflow.utils.session import create_session
from sqlalchemy import select


class RunState(NamedTuple):
    """A run of a DAG. `state`: empty if Airflow has no such run. `is_paused`: whether its DAG is paused."""

    id: str
    state: str
    is_paused: bool = False


def find_run(dag_id: str, run_id: str) -> RunState:
    query = select(DagRun.state, DagModel.is_paused).join(DagModel, DagModel.dag_id == DagRun.dag_id)
    with create_session() as session:
        row = session.execute(query.where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)).first()
    return RunState(run_id, "") if row is None else RunState(run_id, str(row[0]), bool(row[1]))
