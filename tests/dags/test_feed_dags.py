"""The DAGs that Airflow finds in dags/, from the feeds that are shipped."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException
from airflow.serialization.serialized_objects import DagSerialization

from changeledger.config import PROJECT, Settings, load_feeds
from changeledger.orchestration import resolve_window

EXPECTED = {"shop_cdc", "shop_ces", "shop_debezium", "shop_qlik_messages", "shop_qlik_tables"}
STAGES = ["extract", "normalize", "reconcile", "audit", "publish"]


@pytest.fixture(scope="module")
def dags() -> dict[str, Any]:
    bag = DagBag(str(PROJECT / "dags"))
    assert bag.import_errors == {}
    return dict(bag.dags)


def test_one_dag_per_feed(dags: dict[str, Any]) -> None:
    assert set(dags) == EXPECTED == set(load_feeds(Settings().feeds))


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_five_stages_in_a_line(dags: dict[str, Any], name: str) -> None:
    edges = {task.task_id: task.downstream_task_ids for task in dags[name].tasks}
    assert edges == {a: {b} for a, b in pairwise(STAGES)} | {"publish": set()}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_settings_for_the_person_on_call(dags: dict[str, Any], name: str) -> None:
    dag = dags[name]
    feed = load_feeds(Settings().feeds)[name]
    assert type(dag.timetable).__name__ == "CronDataIntervalTimetable"
    assert (dag.catchup, dag.max_active_runs) == (False, 1)
    assert dag.tags == {"changeledger", feed.dialect, feed.database}
    for text in (feed.connection, feed.spark_connection, *(t.table for t in feed.tables), *STAGES):
        assert text in dag.doc_md
    for task in dag.tasks:
        assert (task.retries, task.owner) == (2, feed.owner)
        assert task.retry_exponential_backoff == 2.0
        assert task.execution_timeout == timedelta(hours=2)
        assert Path(task.application).is_file()


def test_a_dag_survives_airflows_own_storage(dags: dict[str, Any]) -> None:
    for dag in dags.values():
        text = json.dumps(DagSerialization.to_dict(dag), default=str)
        assert json.dumps(DagSerialization.to_dict(dag), default=str) == text


def test_parsing_loads_nothing_heavy(airflow_environment: dict[str, str]) -> None:
    code = (
        "import sys, runpy\n"
        f"for name in ('debezium', 'sqlserver_cdc'): runpy.run_path(r'{PROJECT}/dags/' + name + '.py')\n"
        "heavy = {'pyspark', 'great_expectations', 'pandas', 'alembic', 'changeledger.storage.control',"
        " 'changeledger.stages', 'changeledger.job'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], env=airflow_environment, capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("path", sorted((PROJECT / "dags").glob("*.py")), ids=lambda path: path.name)
def test_dag_files_stay_thin_and_are_found(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 40
    # Airflow looks only into files that hold both words.
    assert "airflow" in text.lower()
    assert "dag" in text.lower()


class TestWindow:
    HOURLY = "0 * * * *"
    NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)

    def resolved(self, params: dict[str, Any], interval: Any = None) -> tuple[datetime, datetime]:
        window = resolve_window(params, interval, self.NOON + timedelta(minutes=20), self.HOURLY)
        return window.start, window.end

    def test_params_come_first(self) -> None:
        params = {"start": "2026-01-01T00:00:00+02:00", "end": "2026-01-01"}
        wanted = datetime(2025, 12, 31, 22, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
        assert self.resolved(params, (self.NOON, self.NOON + timedelta(hours=1))) == wanted

    def test_then_the_data_interval(self) -> None:
        interval = (self.NOON, self.NOON + timedelta(hours=1))
        assert self.resolved({"start": None, "end": None}, interval) == interval

    def test_without_one_the_last_full_interval(self) -> None:
        assert self.resolved({}) == (self.NOON - timedelta(hours=1), self.NOON)

    @pytest.mark.parametrize(
        ("params", "interval", "message"),
        [
            ({"start": "2026-01-01T00:00:00Z"}, None, "both"),
            ({"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T00:00:00Z"}, None, "empty or reversed"),
            ({"start": "yesterday", "end": "2026-01-01T00:00:00Z"}, None, "yesterday"),
            ({}, (NOON, NOON), "empty or reversed"),
        ],
    )
    def test_refused(self, params: dict[str, Any], interval: Any, message: str) -> None:
        with pytest.raises(AirflowFailException, match=message):
            self.resolved(params, interval)

    def test_the_template_gives_every_try_the_same_window(self, dags: dict[str, Any]) -> None:
        task = dags["shop_cdc"].get_task("extract")
        run = SimpleNamespace(data_interval_start=None, data_interval_end=None, run_after=self.NOON)
        context = {"params": {"start": None, "end": None}, "dag_run": run, "dag": dags["shop_cdc"]}
        rendered = task.render_template(task.application_args, context, task.get_template_env())
        hour = ["2026-01-31T11:00:00+00:00", "2026-01-31T12:00:00+00:00"]
        assert rendered == ["--feed", "shop_cdc", "--start", hour[0], "--end", hour[1]]
