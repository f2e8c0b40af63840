"""The DAGs that Airflow finds in dags/ for the shipped feeds."""

import shutil
import subprocess
import sys
import time
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models.serialized_dag import SerializedDagModel
from airflow.serialization.serialized_objects import DagSerialization
from airflow.utils.types import DagRunType

from changeledger.cli.project.files import files, write
from changeledger.config.files import load_feeds
from changeledger.config.settings import PROJECT, Settings
from changeledger.model.errors import ConfigError
from changeledger.orchestration import refuse_wrong_settings

EXPECTED = {"shop_cdc", "shop_ces", "shop_debezium", "shop_qlik_messages", "shop_qlik_tables"}
OTHERS = {"maintain", "compare_shop", "verify_shop"}
STAGES = ["extract", "normalize", "reconcile", "audit", "publish"]


@pytest.fixture(scope="module")
def dags() -> dict[str, Any]:
    bag = DagBag(str(PROJECT / "dags"))
    assert bag.import_errors == {}
    return dict(bag.dags)


def test_one_dag_per_feed(dags: dict[str, Any]) -> None:
    assert set(dags) == EXPECTED | OTHERS
    assert set(load_feeds(Settings().feeds)) == EXPECTED


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_five_stages_in_a_line(dags: dict[str, Any], name: str) -> None:
    edges = {task.task_id: task.downstream_task_ids for task in dags[name].tasks}
    assert edges == {a: {b} for a, b in pairwise(STAGES)} | {"publish": set()}


def test_the_run_that_has_the_feed_goes_before_those_that_wait(dags: dict[str, Any]) -> None:
    """The run that has the feed goes first.

    By default, Airflow prefers tasks with more tasks after them: those that only check whether the feed is
    free.
    """
    assert {task.weight_rule for task in dags["shop_cdc"].tasks} == {"upstream"}


def test_the_feeds_of_a_database_are_compared_daily(dags: dict[str, Any]) -> None:
    dag = dags["compare_shop"]
    (task,) = dag.tasks
    assert Path(task.application).name == "compare.py"
    assert task.application_args == ["--database", "shop", "--full", "{{ params.full | lower }}"]
    assert dag.timetable.timetable.expression == "30 4 * * *"
    assert all(name in dag.doc_md for name in EXPECTED)


def test_the_feeds_of_a_database_are_verified_daily(dags: dict[str, Any]) -> None:
    dag = dags["verify_shop"]
    (task,) = dag.tasks
    assert Path(task.application).name == "verify.py"
    assert task.application_args[:3] == ["--database", "shop", "--snapshot"]
    # The job reads the source itself, so it gets the source's connection.
    assert task.source_connection == "shop_sqlserver"
    assert dag.timetable.timetable.expression == "30 5 * * *"
    assert all(text in dag.doc_md for text in (*EXPECTED, "shop_sqlserver", "PublishedDrifts", "0:15:00"))


@pytest.mark.parametrize("name", ["compare_shop", "verify_shop"])
def test_what_is_done_for_a_database(dags: dict[str, Any], name: str) -> None:
    """The DAG also runs when a feed publishes.

    One table of each feed suffices, as a release updates all tables.
    """
    dag = dags[name]
    assert type(dag.timetable).__name__ == "AssetOrTimeSchedule"
    assert {asset.name for asset in dag.timetable.asset_condition.objects} == {
        f"lake.{feed}.dbo_customers" for feed in EXPECTED
    }
    assert (dag.catchup, dag.max_active_runs) == (False, 1)
    (task,) = dag.tasks
    assert [link.name for link in task.operator_extra_links] == ["Report"]
    assert (task.retries, task.owner, task.pool) == (2, "data-engineering", "changeledger")
    assert task.has_on_failure_callback


@pytest.mark.parametrize(
    ("run_type", "asked", "snapshot"),
    [("scheduled", "auto", "auto"), ("manual", "fresh", "fresh"), ("asset_triggered", "auto", "reuse")],
)
def test_a_release_does_not_make_anybody_read_the_source(
    dags: dict[str, Any], run_type: str, asked: str, snapshot: str
) -> None:
    task = dags["verify_shop"].task_dict["verify"]
    run = SimpleNamespace(run_type=DagRunType(run_type))
    rendered = task.render_template(task.application_args, {"params": {"snapshot": asked}, "dag_run": run})
    assert rendered == ["--database", "shop", "--snapshot", snapshot]


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_settings_for_the_person_on_call(dags: dict[str, Any], name: str) -> None:
    dag = dags[name]
    feed = load_feeds(Settings().feeds)[name]
    assert type(dag.timetable).__name__ == "CronDataIntervalTimetable"
    assert (dag.catchup, dag.max_active_runs) == (False, 4)
    assert dag.tags == {"changeledger", feed.dialect, feed.database}
    for text in (feed.connection, feed.spark_connection, *(t.table for t in feed.tables), *STAGES):
        assert text in dag.doc_md
    for task in dag.tasks:
        assert (task.retries, task.owner, task.pool) == (2, feed.owner, "changeledger")
        assert task.has_on_failure_callback
        assert task.retry_exponential_backoff == 2.0
        assert task.execution_timeout == timedelta(hours=2)
        assert Path(task.application).is_file()


def test_a_feed_that_takes_longer_states_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "feeds"
    shutil.copytree(PROJECT / "include" / "feeds", folder)
    file = folder / "shop_cdc.yaml"
    file.write_text(file.read_text() + "\nexecution_timeout: PT12H\n")
    monkeypatch.setenv("CHANGELEDGER_FEEDS", str(folder))
    dags = DagBag(str(PROJECT / "dags")).dags
    limits = {
        name: {task.task_id: task.execution_timeout for task in dags[name].tasks}
        for name in ("shop_cdc", "shop_ces", "maintain", "compare_shop", "verify_shop")
    }
    two, twelve = timedelta(hours=2), timedelta(hours=12)
    assert limits["shop_cdc"] == dict.fromkeys(STAGES, twelve)
    assert limits["shop_ces"] == dict.fromkeys(STAGES, two)
    assert limits["maintain"] == dict.fromkeys(EXPECTED, two) | {"shop_cdc": twelve}
    # These DAGs read all feeds of the database.
    assert (limits["compare_shop"], limits["verify_shop"]) == ({"compare": twelve}, {"verify": twelve})


def test_a_run_that_is_late_is_reported(dags: dict[str, Any]) -> None:
    (alert,) = dags["shop_cdc"].deadline
    assert alert.interval == timedelta(hours=3)
    assert alert.callback.path == "changeledger.orchestration.alerts.late"
    assert alert.callback.kwargs == {"feed": "shop_cdc"}


TABLES = ["dbo_customers", "sales_orders", "dbo_parts", "dbo_wide"]


def test_published_tables_are_assets(dags: dict[str, Any]) -> None:
    reported = {task.task_id: [asset.name for asset in task.outlets] for task in dags["shop_cdc"].tasks}
    assert reported.pop("publish") == [
        f"lake.shop_cdc.{table}{kind}" for kind in ("", "_history", "_changes") for table in TABLES
    ]
    assert not any(reported.values())


def test_the_asset_graph_leads_from_source_tables_to_proofs(dags: dict[str, Any]) -> None:
    """Five feeds of one database name the same source tables."""
    read = {
        (dag_id, task.task_id): [asset.name for asset in task.inlets]
        for dag_id in ("shop_cdc", "shop_debezium", "compare_shop", "verify_shop")
        for task in dags[dag_id].tasks
        if task.inlets
    }
    source = [f"shop: {table.replace('_', '.', 1)}" for table in TABLES]
    assert read.pop(("shop_cdc", "extract")) == source
    assert set(read.pop(("shop_debezium", "extract"))) <= set(source)
    published = {asset.name for dag in dags.values() for task in dag.tasks for asset in task.outlets}
    assert set(read) == {("compare_shop", "compare"), ("verify_shop", "verify")}
    for names in read.values():
        assert set(names) <= published
    assert all(name.endswith("_changes") for name in read["compare_shop", "compare"])
    assert not any(name.endswith("_changes") for name in read["verify_shop", "verify"])


def test_maintenance_has_a_task_for_each_feed(dags: dict[str, Any]) -> None:
    dag = dags["maintain"]
    assert {task.task_id: task.downstream_task_ids for task in dag.tasks} == {
        feed: set() for feed in EXPECTED
    }
    assert type(dag.timetable).__name__ == "CronDataIntervalTimetable"
    assert (dag.catchup, dag.max_active_runs) == (False, 1)
    assert "When a task fails" in dag.doc_md
    for task in dag.tasks:
        assert (task.retries, task.owner, task.pool) == (2, "data-engineering", "changeledger")
        assert task.execution_timeout == timedelta(hours=2)


def test_a_broken_feed_file_takes_its_own_dag_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One DAG file has no DAGs: it makes Airflow show broken files among its import errors."""
    folder = tmp_path / "feeds"
    shutil.copytree(PROJECT / "include" / "feeds", folder)
    broken = folder / "shop_debezium.yaml"
    broken.write_text(broken.read_text().replace("value.placeholder:", "value.place-holder:"))
    monkeypatch.setenv("CHANGELEDGER_FEEDS", str(folder))
    bag = DagBag(str(PROJECT / "dags"))
    assert set(bag.dags) == EXPECTED - {"shop_debezium"} | OTHERS
    assert set(bag.dags["maintain"].task_dict) == EXPECTED - {"shop_debezium"}
    ((file, said),) = bag.import_errors.items()
    assert Path(file).name == "settings_errors.py"
    assert (
        f"{broken} is not valid: source.unavailable.value.place-holder: unknown setting, did you mean" in said
    )
    assert "`unavailable.value.placeholder`?" in said


def test_a_project_that_is_not_there_is_an_import_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without this error, Airflow would show neither a DAG nor a reason."""
    monkeypatch.setenv("CHANGELEDGER_PROJECT", str(tmp_path / "absent"))
    with pytest.raises(ConfigError, match=r"absent/feeds\n.*CHANGELEDGER_PROJECT"):
        refuse_wrong_settings()


def test_a_project_has_the_dags_of_its_feeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, files(tmp_path, ["debezium", "sqlserver_cdc"]))
    monkeypatch.setenv("CHANGELEDGER_PROJECT", str(tmp_path))
    bag = DagBag(str(tmp_path / "dags"))
    assert bag.import_errors == {}
    assert set(bag.dags) == {"shop_debezium", "shop_cdc", *OTHERS}


def test_a_broken_database_file_takes_its_own_dags_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.yaml").write_text("database: shop\nrefrence: shop_cdc\n")
    monkeypatch.setenv("CHANGELEDGER_DATABASES", str(tmp_path))
    bag = DagBag(str(PROJECT / "dags"))
    assert set(bag.dags) == EXPECTED | {"maintain"}
    (said,) = bag.import_errors.values()
    assert "refrence: unknown setting, did you mean `reference`?" in said


def test_files_parsed_twice_give_the_same_dag_versions(dags: dict[str, Any]) -> None:
    again = DagBag(str(PROJECT / "dags")).dags
    for name, dag in dags.items():
        first, second = (SerializedDagModel.hash(DagSerialization.to_dict(d)) for d in (dag, again[name]))
        assert first == second, name


def test_parsing_loads_nothing_heavy(airflow_environment: dict[str, str]) -> None:
    code = (
        "import sys, runpy\n"
        "for name in ('feeds', 'maintain', 'compare', 'verify'):\n"
        f"    runpy.run_path(r'{PROJECT}/dags/' + name + '.py')\n"
        "heavy = {'pyspark', 'great_expectations', 'pandas', 'alembic', 'changeledger.control',"
        " 'changeledger.stages', 'changeledger.job'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], env=airflow_environment, capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "[]"


def test_a_file_is_parsed_within_a_second(dags: dict[str, Any]) -> None:
    """Not counting the first file: Airflow's own imports take longer, and stay loaded."""
    for path in (PROJECT / "dags").glob("*.py"):
        began = time.process_time()
        bag = DagBag(str(path))
        assert bag.dags or path.name == "settings_errors.py"
        assert time.process_time() - began < 1, path.name


@pytest.mark.parametrize("path", sorted((PROJECT / "dags").glob("*.py")), ids=lambda path: path.name)
def test_dag_files_stay_thin_and_are_found(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 40
    # Airflow looks only at files that contain both words.
    assert "airflow" in text.lower()
    assert "dag" in text.lower()
