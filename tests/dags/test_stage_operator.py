"""Starts a stage's job in both ways. Secrets are in its environment and nowhere else."""

import io
import json
import logging
import os
import re
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.configuration import clear_secrets_backends_cache
from airflow.sdk.exceptions import AirflowRescheduleException, AirflowSkipException, DownstreamTasksSkipped

from changeledger.config.connection import Connection
from changeledger.config.files import load_feeds
from changeledger.config.settings import PROJECT, Settings
from changeledger.jobs import script
from changeledger.orchestration import feed_dag
from changeledger.orchestration.ending import Failed

SECRET = "s3cr3t-of-the-source"
CATALOG = '{"uri": "postgresql+psycopg://lake:catalog-s3cr3t@host/lake"}'
SOURCE = {"conn_type": "mssql", "host": "db", "port": 1433, "login": "reader", "password": SECRET}
ARGUMENTS = [
    "--feed", "shop_cdc", "--start", "2026-01-31T11:00:00+00:00", "--end", "2026-01-31T12:00:00+00:00",
    "--request", '{"run":"manual__1"}',
]  # fmt: skip


class Started:
    """Replaces subprocess.Popen and records what it was asked to start."""

    all: ClassVar[list["Started"]] = []
    code: ClassVar[int] = 0
    printed: ClassVar[str] = "a line of the job\n"
    # Exit code of a job that must not start Spark. 78: it needs Spark.
    asked: ClassVar[int] = 78

    def __init__(self, command: list[str], **options: Any) -> None:
        self.command, self.options = command, options
        self.env = options.get("env") or dict(os.environ)
        self.stdout, self.returncode, self.pid = io.StringIO(Started.printed), Started.code, 0
        if "--no-spark" in command:
            self.returncode = Started.asked
        Started.all.append(self)

    def __enter__(self) -> "Started":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self) -> int:
        return self.returncode

    poll = wait


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Started]:
    (tmp_path / "a.jar").touch()
    (tmp_path / "b.jar").touch()
    monkeypatch.setenv("CHANGELEDGER_JARS", str(tmp_path))
    monkeypatch.setenv("CHANGELEDGER_CATALOG", CATALOG)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_SQLSERVER", json.dumps(SOURCE))
    monkeypatch.setattr(subprocess, "Popen", Started)
    monkeypatch.setattr(Started, "all", [])
    monkeypatch.setattr(Started, "code", 0)
    monkeypatch.setattr(Started, "asked", 78)
    return Started.all


def spark(monkeypatch: pytest.MonkeyPatch, **members: object) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CHANGELEDGER_SPARK", json.dumps(members))


def operator(stage: str = "normalize") -> Any:
    return feed_dag(load_feeds(Settings().feeds)["shop_cdc"]).get_task(stage)


def context(**conf: Any) -> Any:
    """The context of a manual run at noon. Its conf is among the params, as in Airflow."""
    run = SimpleNamespace(
        run_id="manual__1",
        run_type="manual",
        data_interval_start=None,
        data_interval_end=None,
        run_after=datetime(2026, 1, 31, 12, tzinfo=UTC),
        conf=conf,
    )
    return {"params": conf, "dag_run": run}


def test_spark_submit(monkeypatch: pytest.MonkeyPatch, started: list[Started], tmp_path: Path) -> None:
    spark(monkeypatch, conn_type="spark", host="spark://master", port=7077)
    monkeypatch.setenv("SPARK_REMOTE", "sc://left:1")
    operator().execute(context())
    (job,) = started
    assert job.command == [
        "spark-submit", "--master", "spark://master:7077",
        "--jars", f"{tmp_path}/a.jar,{tmp_path}/b.jar",
        "--name", "changeledger-shop_cdc-normalize",
        str(script("normalize")), *ARGUMENTS,
    ]  # fmt: skip
    assert "SPARK_REMOTE" not in job.env
    assert job.env["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert job.env["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)


def test_local_master_has_its_own_settings(monkeypatch: pytest.MonkeyPatch, started: list[Started]) -> None:
    spark(monkeypatch, conn_type="spark", host="local[*]")
    operator().execute(context())
    command = started[0].command
    assert command[:3] == ["spark-submit", "--master", "local[*]"]
    assert "spark.driver.bindAddress=127.0.0.1" in command
    assert not any(part.startswith("spark.jars=") for part in command)


def test_spark_connect(monkeypatch: pytest.MonkeyPatch, started: list[Started]) -> None:
    spark(monkeypatch, conn_type="spark_connect", host="sc://127.0.0.1", port=15002, password="tok3n")
    operator().execute(context())
    (job,) = started
    assert job.command == [sys.executable, str(script("normalize")), *ARGUMENTS]
    assert job.env["SPARK_REMOTE"].startswith("sc://127.0.0.1:15002/")
    assert "tok3n" in job.env["SPARK_REMOTE"]


def test_extract_asks_the_source_before_anything_is_submitted(
    monkeypatch: pytest.MonkeyPatch, started: list[Started]
) -> None:
    spark(monkeypatch, conn_type="spark", host="yarn")
    operator("extract").execute(context())
    asking, submitted = started
    assert asking.command == [sys.executable, str(script("extract")), *ARGUMENTS, "--no-spark"]
    assert submitted.command[0] == "spark-submit"
    assert submitted.command[-len(ARGUMENTS) - 1 :] == [str(script("extract")), *ARGUMENTS]


@pytest.mark.parametrize(
    ("code", "raised"),
    [(0, None), (2, Failed), (75, Failed), (77, DownstreamTasksSkipped)],
)
def test_without_anything_new_nothing_is_submitted(
    monkeypatch: pytest.MonkeyPatch, started: list[Started], code: int, raised: type[BaseException] | None
) -> None:
    spark(monkeypatch, conn_type="spark", host="yarn")
    monkeypatch.setattr(Started, "asked", code)
    with nullcontext() if raised is None else pytest.raises(raised):
        operator("extract").execute(context())
    assert len(started) == 1


def test_publish_is_submitted_only_where_it_needs_spark(
    monkeypatch: pytest.MonkeyPatch, started: list[Started]
) -> None:
    spark(monkeypatch, conn_type="spark", host="yarn")
    monkeypatch.setattr(Started, "asked", 0)
    # Outlets would query the control store for the release.
    task = operator("publish")
    task.outlets = []
    task.execute(context())
    (asking,) = started
    assert asking.command == [sys.executable, str(script("publish")), *ARGUMENTS, "--no-spark"]
    monkeypatch.setattr(Started, "asked", 78)
    task.execute(context())
    assert started[-1].command[0] == "spark-submit"


def test_extract_attached_to_a_server_asks_and_reads_in_one(
    monkeypatch: pytest.MonkeyPatch, started: list[Started]
) -> None:
    spark(monkeypatch, conn_type="spark_connect", host="127.0.0.1", port=15002)
    operator("extract").execute(context())
    (job,) = started
    assert job.command == [sys.executable, str(script("extract")), *ARGUMENTS]


WAYS = [
    {"conn_type": "spark", "host": "local[2]"},
    {"conn_type": "spark", "host": "yarn"},
    {"conn_type": "spark_connect", "host": "127.0.0.1", "port": 15002},
]
each_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: str(way["host"]))


@each_way
def test_secrets_only_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, started: list[Started], caplog: pytest.LogCaptureFixture, way: Any
) -> None:
    spark(monkeypatch, **way)
    caplog.set_level(logging.DEBUG)
    operator().execute(context())
    (job,) = started
    handed = json.loads(job.env["AIRFLOW_CONN_SHOP_SQLSERVER"])
    assert {name: handed[name] for name in SOURCE} == SOURCE
    assert job.env["CHANGELEDGER_CATALOG"] == CATALOG
    for place in (" ".join(job.command), caplog.text):
        assert SECRET not in place
        assert "catalog-s3cr3t" not in place
    assert os.environ.get("SPARK_REMOTE") is None


def test_a_connection_of_a_secrets_backend(
    monkeypatch: pytest.MonkeyPatch,
    started: list[Started],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """Airflow's own file backend, in place of Vault or AWS. It is asked before the environment."""
    # A process caches its backends.
    request.addfinalizer(clear_secrets_backends_cache)
    spark(monkeypatch, conn_type="spark", host="yarn")
    kept = {"shop_sqlserver": {**SOURCE, "host": "of-the-backend", "password": "backend-s3cr3t"}}
    (tmp_path / "connections.json").write_text(json.dumps(kept), "utf-8")
    backend = "airflow.secrets.local_filesystem.LocalFilesystemBackend"
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND", backend)
    files = {"connections_file_path": str(tmp_path / "connections.json")}
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND_KWARGS", json.dumps(files))
    operator().execute(context())
    (job,) = started
    read = Connection.model_validate_json(job.env["AIRFLOW_CONN_SHOP_SQLSERVER"])
    assert (read.host, read.login, read.password) == ("of-the-backend", "reader", "backend-s3cr3t")
    assert not [name for name in job.env if name.startswith("AIRFLOW__")], "a job does not ask the backend"


@each_way
@pytest.mark.parametrize(("code", "final"), [(2, True), (75, False), (1, False), (-9, False)])
def test_only_code_2_is_final(
    monkeypatch: pytest.MonkeyPatch, started: list[Started], way: Any, code: int, final: bool
) -> None:
    spark(monkeypatch, **way)
    monkeypatch.setattr(Started, "code", code)
    with pytest.raises(Failed) as caught:
        operator().execute(context())
    assert caught.value.final is final
    decision = operator().retry_policy.evaluate(caught.value, 1, 3)
    assert decision.action.value == ("fail" if final else "default")


PRINTED = """\
2026-01-31 12:00:00,001 INFO normalize shop_cdc begins
2026-01-31 12:00:01,001 ERROR an earlier one
  which was no end
2026-01-31 12:00:02,001 WARNING a message is old
26/01/31 12:00:03 WARN SparkContext: another
2026-01-31 12:00:04,001 ERROR ContractError: dbo.orders has no key
  Remedy: state `key` in the feed's file
ShutdownHookManager: deleting
"""


@each_way
def test_the_remedy_is_the_end_of_the_log(
    monkeypatch: pytest.MonkeyPatch, started: list[Started], capsys: pytest.CaptureFixture[str], way: Any
) -> None:
    spark(monkeypatch, **way)
    monkeypatch.setattr(Started, "code", 2)
    monkeypatch.setattr(Started, "printed", PRINTED)
    with pytest.raises(Failed) as caught:
        operator().execute(context())
    # Lines as Airflow prints them outside of its own task runner.
    lines = re.findall(r"^\S+ \[(\w+) *\] +(.*?) +\[airflow\.", capsys.readouterr().out, re.MULTILINE)
    end = ["ContractError: dbo.orders has no key", "Remedy: state `key` in the feed's file"]
    assert lines[-2:] == [("error", text) for text in end]
    assert str(caught.value) == "\n  ".join(end)
    # Airflow shows this in its own last line.
    assert caught.value.code == end[1]
    texts = [text for _, text in lines]
    assert [texts.count(text) for text in end] == [1, 1]
    for text in ("normalize shop_cdc begins", "an earlier one", "which was no end", "a message is old"):
        assert texts.count(text) == 1
    if way["conn_type"] == "spark_connect":
        assert ("warning", "a message is old") in lines
        assert ("error", "which was no end") in lines
    # A job that succeeds prints all of its lines.
    monkeypatch.setattr(Started, "code", 0)
    operator().execute(context())
    assert end[0] in capsys.readouterr().out


def test_a_fault_of_the_program_is_the_end_of_the_log(
    monkeypatch: pytest.MonkeyPatch, started: list[Started], capsys: pytest.CaptureFixture[str]
) -> None:
    spark(monkeypatch, **WAYS[2])
    monkeypatch.setattr(Started, "code", 1)
    fault = 'Traceback (most recent call last):\n  File "x.py", line 1, in f\nKeyError: "a"\n'
    monkeypatch.setattr(Started, "printed", f"2026-01-31 12:00:00,001 INFO begins\n{fault}")
    with pytest.raises(Failed) as caught:
        operator().execute(context())
    assert str(caught.value) == 'normalize ended with code 1: KeyError: "a"; see the log above'
    assert re.search(r'\[error *\] +File "x.py", line 1, in f', capsys.readouterr().out)
    assert not caught.value.final


@each_way
def test_another_runs_lease_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, started: list[Started], way: Any
) -> None:
    """Waiting is not a failure, so it uses up no try: ten runs of a backfill may wait for each other."""
    spark(monkeypatch, **way)
    monkeypatch.setattr(Started, "code", 76)
    with pytest.raises(AirflowRescheduleException) as caught:
        operator().execute(context())
    assert caught.value.reschedule_date > datetime.now(UTC)


@each_way
def test_where_nothing_is_left_the_rest_is_skipped(
    monkeypatch: pytest.MonkeyPatch, started: list[Started], way: Any
) -> None:
    spark(monkeypatch, **way)
    monkeypatch.setattr(Started, "code", 77)
    with pytest.raises(DownstreamTasksSkipped) as caught:
        operator("reconcile").execute(context())
    assert caught.value.tasks == ["audit", "publish"]


def test_a_dry_run_publishes_nothing(monkeypatch: pytest.MonkeyPatch, started: list[Started]) -> None:
    spark(monkeypatch, **WAYS[0])
    task = operator("publish")
    with pytest.raises(AirflowSkipException, match="dry run"):
        task.execute(context(dry_run=True))
    assert started == []
    task.execute(context(dry_run=False))
    assert started != []


@pytest.mark.parametrize("missing", ["CHANGELEDGER_SPARK", "SHOP_SQLSERVER"])
def test_a_missing_connection_is_named(
    monkeypatch: pytest.MonkeyPatch, started: list[Started], missing: str
) -> None:
    spark(monkeypatch, conn_type="spark", host="local[2]")
    monkeypatch.delenv(f"AIRFLOW_CONN_{missing}")
    with pytest.raises(Failed, match=f"(?s){missing.lower()}.*Remedy: .*Admin > Connections"):
        operator().execute(context())
    assert started == []


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ({"conn_type": "http", "host": "x"}, "`spark` or `spark_connect`"),
        ({"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}, "client"),
        ({"conn_type": "spark", "host": "k8s://https://k8s.example.com", "port": 6443}, "cncf-kubernetes"),
    ],
)
def test_other_ways_are_refused(
    monkeypatch: pytest.MonkeyPatch, started: list[Started], way: Any, message: str
) -> None:
    spark(monkeypatch, **way)
    with pytest.raises(Failed, match=message):
        operator().execute(context())
    assert started == []


def test_no_jars_is_said(monkeypatch: pytest.MonkeyPatch, started: list[Started], tmp_path: Path) -> None:
    spark(monkeypatch, conn_type="spark", host="local[2]")
    monkeypatch.setenv("CHANGELEDGER_JARS", str(tmp_path / "none"))
    with pytest.raises(Failed, match="no jars"):
        operator().execute(context())


def test_a_bad_window_is_refused_where_the_log_shows_it(
    monkeypatch: pytest.MonkeyPatch, started: list[Started]
) -> None:
    """Errors raised while Airflow renders templates reach no log."""
    spark(monkeypatch, **WAYS[0])
    bad = context(mode="window", start="2026-01-02T00:00:00Z", end="2026-01-01T00:00:00Z")
    task = operator()
    task.render_template_fields({**bad, "dag": task.dag})
    with pytest.raises(Failed, match=r"(?s)empty or reversed.*`start` before `end`"):
        task.execute(bad)
    assert started == []


def test_the_window_of_a_run_is_shown_among_the_rendered_fields(
    monkeypatch: pytest.MonkeyPatch, started: list[Started]
) -> None:
    spark(monkeypatch, **WAYS[0])
    task = operator()
    task.execute(context())
    assert len(started) == 1
    assert task.overwrite_rtif_after_execution
    assert task.application_args == ARGUMENTS


@pytest.mark.parametrize(
    ("dag", "conf", "message"),
    [
        ("shop_cdc", {"dryrun": True}, "`dryrun`.*did you mean `dry_run`"),
        ("shop_cdc", {"Mode": "replay"}, "`Mode`.*did you mean `mode`"),
        ("shop_cdc", {"colour": "red"}, "`colour`.*dry_run, end, mode, reason, start, tables, tolerate"),
        ("compare_shop", {"ful": True}, "`ful`.*did you mean `full`"),
        ("verify_shop", {"snapshots": "fresh"}, "`snapshots`.*did you mean `snapshot`"),
        ("maintain", {"feed": "shop_cdc"}, "`feed`.*no members"),
    ],
)
def test_a_member_of_a_runs_conf_that_nobody_knows_is_refused(
    monkeypatch: pytest.MonkeyPatch, started: list[Started], dag: str, conf: dict[str, Any], message: str
) -> None:
    """Airflow itself accepts any member: {"dryrun": true} once published a release."""
    spark(monkeypatch, **WAYS[0])
    file = {"shop_cdc": "feeds"}.get(dag, dag.partition("_")[0])
    task: Any = DagBag(str(PROJECT / "dags" / f"{file}.py")).dags[dag].tasks[0]
    with pytest.raises(Failed, match=f"(?s){message}"):
        task.execute(context(**conf))
    assert started == []


def test_a_kill_ends_the_attached_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spark(monkeypatch, conn_type="spark_connect", host="127.0.0.1", port=15002)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_SQLSERVER", json.dumps(SOURCE))
    script = tmp_path / "sleeper.py"
    script.write_text("import time; print('up'); time.sleep(60)")
    task = operator()
    task.application = str(script)
    threading.Timer(1.5, task.on_kill).start()
    began = time.monotonic()
    with pytest.raises(Failed, match="SIGKILL"):
        task.execute(context())
    assert time.monotonic() - began < 20


@each_way
def test_a_kill_before_the_job_starts_ends_it(
    monkeypatch: pytest.MonkeyPatch, started: list[Started], way: Any
) -> None:
    """Airflow kills a task only once. Then it ends the task's own process, but not the job's."""
    spark(monkeypatch, **way)
    killed: list[int] = []
    monkeypatch.setattr(Started, "poll", lambda _: None)
    monkeypatch.setattr(Started, "kill", lambda _: killed.append(1), raising=False)
    monkeypatch.setattr(os, "killpg", lambda *_: killed.append(1))
    task = operator()
    task.on_kill()
    task.execute(context())
    assert (len(started), len(killed)) == (1, 1)


@each_way
def test_the_lakes_credentials_may_be_in_a_connection(
    monkeypatch: pytest.MonkeyPatch, started: list[Started], caplog: pytest.LogCaptureFixture, way: Any
) -> None:
    spark(monkeypatch, **way)
    caplog.set_level(logging.DEBUG)
    members = {"type": "rest", "uri": "https://catalog.example.com", "warehouse": "s3://lake"}
    monkeypatch.setenv("CHANGELEDGER_CATALOG", json.dumps(members))
    monkeypatch.setenv("CHANGELEDGER_CATALOG_CONNECTION", "lake")
    jars = Path(os.environ["CHANGELEDGER_JARS"])
    (jars.parent / f"{jars.name}-s3").mkdir()
    (jars.parent / f"{jars.name}-s3" / "sdk.jar").touch()
    with pytest.raises(Failed, match="connection 'lake' does not exist"):
        operator().execute(context())
    keys = {"s3.access-key-id": "key", "s3.secret-access-key": SECRET, "s3.force-virtual-addressing": True}
    lake = {"conn_type": "generic", "password": "token-s3cr3t", "extra": keys}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(lake))
    operator().execute(context())
    (job,) = started
    credentials = {**keys, "token": "token-s3cr3t", "s3.force-virtual-addressing": "true"}
    assert json.loads(job.env["CHANGELEDGER_CATALOG"]) == {**members, **credentials}
    assert "AIRFLOW_CONN_LAKE" not in job.env
    for place in (" ".join(job.command), caplog.text):
        assert SECRET not in place
        assert "token-s3cr3t" not in place


@each_way
def test_a_job_gets_the_secrets_of_its_own_source_alone(
    monkeypatch: pytest.MonkeyPatch, started: list[Started], way: dict[str, object]
) -> None:
    spark(monkeypatch, **way)
    monkeypatch.setenv("AIRFLOW_CONN_ANOTHER", json.dumps({**SOURCE, "password": "another-s3cr3t"}))
    monkeypatch.setenv("AIRFLOW_VAR_TOKEN", "variable-s3cr3t")
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "fernet-s3cr3t")
    monkeypatch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "jwt-s3cr3t")
    operator().execute(context())
    (job,) = started
    secrets = {name for name, value in job.env.items() if "s3cr3t" in value}
    assert secrets == {"AIRFLOW_CONN_SHOP_SQLSERVER", "CHANGELEDGER_CATALOG"}
    assert not [name for name in job.env if name.startswith("AIRFLOW__")]


def test_a_task_ends_with_the_remedys_first_line() -> None:
    error = "AuditFailed: a rule\n  - detail\n  Remedy: look at the rows:\n    SELECT * FROM t"
    assert Failed(error).code == "Remedy: look at the rows:"
    assert Failed("it died\nwith code 9").code == "with code 9"


KILLED = "was killed (SIGKILL; mostly because memory ran out, see docs/sizing.md)"


@pytest.mark.parametrize(
    ("code", "end"),
    [
        (
            -9,
            KILLED,
        ),
        # The JVM of spark-submit tells the code of Python, its child.
        (
            137,
            KILLED,
        ),
        (-11, "was ended by SIGSEGV"),
        (255, "ended with code 255"),
    ],
)
def test_a_signal_is_named(
    monkeypatch: pytest.MonkeyPatch, started: list[Started], code: int, end: str
) -> None:
    spark(monkeypatch, **WAYS[2])
    monkeypatch.setattr(Started, "code", code)
    with pytest.raises(Failed) as caught:
        operator().execute(context())
    assert str(caught.value) == f"normalize {end}; see the log above"
