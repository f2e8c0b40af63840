"""Runs commands, idle windows and an ordinary hour: processes that begin cold, on a lake with two feeds.

    python -m benchmarks.subjects.commands BOOTSTRAP HOME

Marks: `made`, then one for each command. The feeds read one small log, from topics and from change tables.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import yaml

from benchmarks.marks import mark
from changeledger import exit_codes
from changeledger.config.settings import PROJECT
from sourcelab import debezium, sqlserver_cdc
from sourcelab.log import simulate
from sourcelab.messages import produce
from sourcelab.services import Postgres

BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
DECODED = 10
OF_AN_HOUR = 60


def main() -> None:
    bootstrap, home = sys.argv[1], Path(sys.argv[2])
    log = simulate(5, 60, datetime.now(UTC).replace(microsecond=0) - timedelta(days=2))
    messages = list(debezium.messages(log, schemas=True, snapshot=True, prefix="commands"))
    before_the_hour = len(messages) - OF_AN_HOUR
    produce(bootstrap, messages[:before_the_hour])
    with Postgres(home) as postgres:
        sqlserver_cdc.load(postgres.url, log)
        kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap}}
        shared = {"database": "shop", "tables": [{"table": table.full_name} for table in log.tables]}
        topics = {"dialect": "debezium", "source": {"topics": ["commands.*"]}, **shared}
        os.environ["CHANGELEDGER_FEEDS"] = str(home / "feeds")
        (home / "feeds").mkdir()
        _describe(home / "feeds" / "messages.yaml", topics, kafka)
        change_tables = {"dialect": "sqlserver_cdc", "source": {}, **shared}
        _describe(home / "feeds" / "change_tables.yaml", change_tables, postgres.connection)
        end = datetime.now(UTC)
        _publish(end)
        mark("made")
        produce(bootstrap, messages[before_the_hour:])
        mark("produced")
        begin, end = end, datetime.now(UTC)
        _hour("messages", begin, end)
        for feed in ("messages", "change_tables"):
            with _marked(f"idle window of {feed}"):
                _idle(feed, end)
    lines = home / "messages.jsonl"
    values = (message.value.decode() for message in messages if message.value is not None)
    lines.write_text("".join(json.dumps({"value": value}) + "\n" for value in islice(values, DECODED)))
    with _marked("decode"):
        _command("decode", "--dialect", "debezium", str(lines))
    with _marked("status"):
        _command("status")


def _describe(path: Path, feed: Mapping[str, object], connection: object) -> None:
    name = path.stem
    os.environ[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps(connection)
    path.write_text(yaml.safe_dump({"feed": name, "connection": name, **feed}))


def _publish(end: datetime) -> None:
    from changeledger.config.files import load_feeds  # noqa: PLC0415 - it reads the settings
    from changeledger.config.settings import Settings  # noqa: PLC0415
    from changeledger.model.window import Window  # noqa: PLC0415
    from changeledger.spark.session import spark_session  # noqa: PLC0415
    from changeledger.stages import audit, extract, normalize, publish, reconcile  # noqa: PLC0415

    spark = spark_session("changeledger-bench")
    for feed in load_feeds(Settings().feeds).values():
        for stage in (extract, normalize, reconcile, audit, publish):
            stage.run(spark, feed, Window(start=BEGIN, end=end))
    spark.stop()


@contextmanager
def _marked(name: str) -> Iterator[None]:
    yield
    mark(name)


def _hour(feed: str, begin: datetime, end: datetime) -> None:
    """Runs the five jobs as Airflow's operator does: extract and publish first check if they need Spark."""
    from changeledger.config.settings import Settings  # noqa: PLC0415 - it reads the settings
    from changeledger.spark.session import local_conf  # noqa: PLC0415

    submit = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[*]"]
    for name, value in local_conf(Settings()).items():
        submit += ["--conf", f"{name}={value}"]
    assert _job("extract", feed, begin, end, "--no-spark") == exit_codes.NEEDS_SPARK
    mark("hour: extract asks")
    for job in ("extract", "normalize", "reconcile", "audit"):
        assert _job(job, feed, begin, end, by=submit) == 0, job
        mark(f"hour: {job}")
    assert _job("publish", feed, begin, end, "--no-spark") == 0
    mark("hour: publish")


def _idle(feed: str, begin: datetime) -> None:
    """Runs extract as Airflow's operator does first; its exit code skips the other four tasks."""
    ended = _job("extract", feed, begin, datetime.now(UTC), "--no-spark")
    assert ended == exit_codes.NOTHING, "the window is idle"


def _job(
    name: str, feed: str, begin: datetime, end: datetime, *more: str, by: Sequence[str] = (sys.executable,)
) -> int:
    """Runs `jobs/<name>.py` with the command `by`, and returns its exit code."""
    window = ["--feed", feed, "--start", begin.isoformat(), "--end", end.isoformat()]
    command = [*by, str(PROJECT / "jobs" / f"{name}.py"), *window, *more]
    return subprocess.run(command, stdout=sys.stderr, check=False).returncode


def _command(*arguments: str) -> None:
    command = [sys.executable, "-m", "changeledger.cli", *arguments]
    ended = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    assert ended.returncode in (0, 1), "1: a feed is late"


if __name__ == "__main__":
    main()
