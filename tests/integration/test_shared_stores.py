"""Catalog and control store on PostgreSQL, by configuration alone: two processes see one lake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
import yaml

from changeledger.control import ControlStore
from changeledger.control.database import engine_for
from changeledger.model.errors import SourceUnavailable
from changeledger.spark.session import SMALL_DATA, SMALL_DATA_JVM, as_properties
from sourcelab import sqlserver_cdc
from sourcelab.log import simulate
from sourcelab.postgres import plain_url
from sourcelab.services import Postgres

pytestmark = pytest.mark.integration

PROJECT = Path(__file__).parents[2]
TABLE = "dbo.customers"
STAGES = """
import sys
from datetime import datetime
from changeledger.config.files import load_feeds
from changeledger.config.settings import Settings
from changeledger.model.window import Window
from changeledger.stages import audit, extract, normalize, publish, reconcile
from changeledger.spark.session import spark_session

start, end = map(datetime.fromisoformat, sys.argv[1:])
window = Window(start=start, end=end)
feed = load_feeds(Settings().feeds)["shared"]
spark = spark_session("shared stores")
for stage in (extract, normalize, reconcile, audit, publish):
    stage.run(spark, feed, window)
"""


def test_a_control_store_that_can_only_be_read(postgres: Postgres) -> None:
    """As a server that is switched to its copy: a lease that cannot be renewed is tried again."""
    ControlStore(postgres.url).acquire_lease("shop", "me", 60)
    with psycopg.connect(plain_url(postgres.url), autocommit=True) as session:
        session.execute(f"ALTER DATABASE {postgres.database} SET default_transaction_read_only = on")
    engine_for(postgres.url).dispose()
    with pytest.raises(SourceUnavailable, match="read-only transaction"):
        ControlStore(postgres.url).renew_lease("shop", 60)


def test_a_line_on_postgresql(tmp_path: Path) -> None:
    log = simulate(9, 12)
    with Postgres(tmp_path / "postgres") as postgres:
        sqlserver_cdc.load(postgres.url, log)
        feeds = tmp_path / "feeds"
        feeds.mkdir()
        feed = {
            "feed": "shared", "dialect": "sqlserver_cdc", "database": "shop", "connection": "shared",
            "source": {}, "tables": [{"table": TABLE}],
        }  # fmt: skip
        (feeds / "shared.yaml").write_text(yaml.safe_dump(feed), "utf-8")
        # As an installation of small data would be configured.
        (tmp_path / "spark-defaults.conf").write_text(as_properties(SMALL_DATA))
        environment = {
            "PATH": os.environ["PATH"],
            "SPARK_CONF_DIR": str(tmp_path),
            "JAVA_TOOL_OPTIONS": SMALL_DATA_JVM,
            "PYTHONPATH": str(PROJECT / "include"),
            "CHANGELEDGER_HOME": str(tmp_path / "home"),
            "CHANGELEDGER_FEEDS": str(feeds),
            "CHANGELEDGER_JARS": os.environ["CHANGELEDGER_JARS"],
            "CHANGELEDGER_CONTROL_URL": postgres.url,
            "CHANGELEDGER_CATALOG": json.dumps({"uri": postgres.url}),
            "AIRFLOW_CONN_SHARED": json.dumps(postgres.connection),
        }
        end = datetime.now(UTC).isoformat()
        ran = _python(environment, "-c", STAGES, "2020-01-01T00:00:00+00:00", end)
        assert ran.returncode == 0, ran.stderr[-3000:]
        asked = _python(
            environment,
            "-m",
            "changeledger.cli",
            "query",
            "--json",
            "SELECT id FROM lake.shared.dbo_customers",
        )
        assert postgres.password not in ran.stdout + ran.stderr + asked.stdout + asked.stderr
        with psycopg.connect(postgres.url.replace("+psycopg", "")) as session:
            released = session.execute("SELECT status FROM releases").fetchall()
            tables = session.execute("SELECT count(*) FROM iceberg_tables").fetchone()
    assert released == [("completed",)]
    assert tables is not None
    assert tables[0] >= 5
    found = {json.loads(line)["id"] for line in asked.stdout.splitlines()}
    assert found == {key[0] for key in log.final_rows(log.table(TABLE))}
    assert not list((tmp_path / "home").glob("*.db")), "no embedded store beside"


def _python(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
