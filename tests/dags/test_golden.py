"""The exact command lines that a scheduled run starts: `golden/spark_submit.txt`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag

from changeledger.config.settings import PROJECT
from tests.dags.test_stage_operator import Started, spark, started

__all__ = ["started"]
GOLDEN = Path(__file__).with_name("golden") / "spark_submit.txt"
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
RUN_ID = "scheduled__2026-01-31T11:00:00+00:00"


def test_spark_submit(monkeypatch: pytest.MonkeyPatch, started: list[Started], tmp_path: Path) -> None:
    spark(monkeypatch, conn_type="spark", host="spark://master", port=7077)
    dags = DagBag(str(PROJECT / "dags")).dags
    of_database = [task for dag in ("compare_shop", "verify_shop") for task in dags[dag].tasks]
    for task in [*dags["shop_cdc"].tasks, dags["maintain"].get_task("shop_cdc"), *of_database]:
        execute(task)
    shown = [" ".join(job.command).replace(sys.executable, "<python>") for job in started]
    shown = [line.replace(str(PROJECT), "<project>") for line in shown]
    assert [line.replace(f"{tmp_path}/", "") for line in shown] == GOLDEN.read_text().splitlines()


def execute(task: Any) -> None:
    run = SimpleNamespace(
        run_id=RUN_ID,
        run_type="scheduled",
        data_interval_start=NOON - timedelta(hours=1),
        data_interval_end=NOON,
        run_after=NOON,
        conf={},
    )
    context = {"params": task.dag.params.dump(), "dag_run": run, "run_id": RUN_ID, "dag": task.dag}
    task.render_template_fields(context)
    task.execute(context)
