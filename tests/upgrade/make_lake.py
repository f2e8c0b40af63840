"""Makes `lake-0.1.tar.xz`, with the code of version 0.1 (commit 92c8158):

    git worktree add /tmp/v0.1 92c8158 && mkdir /tmp/v0.1/tests/upgrade
    cp tests/upgrade/*.py /tmp/v0.1/tests/upgrade
    cd /tmp/v0.1 && scripts/bootstrap spark kafka
    PYTHONPATH=include:. .venv/bin/python -m tests.upgrade.make_lake <here>/tests/upgrade/lake-0.1.tar.xz

Iceberg's metadata has absolute paths: the lake works in `HOME` alone. It has, by feed:
  old_ces: two windows; a message that is broken, and asked to be read again; one that waits for its rest; a
    break of the image chain.
  old_cdc: two windows, and a third that is built and not judged; unknown cells; deleted rows; a proof that
    has found drift, and repairs that were applied.
  both: a comparison.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg

from changeledger.cli import quarantine
from changeledger.cli.quarantine import Chosen
from changeledger.config.database import Database
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.model.errors import ChangeledgerError
from changeledger.model.window import Request, Window
from changeledger.storage.session import spark_session
from sourcelab.postgres import plain_url
from sourcelab.services import KafkaBroker, Postgres
from tests.upgrade import records

HOME = Path("/tmp/changeledger-0.1")
BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
JARS = Path(__file__).resolve().parents[2] / ".jars"
_LEFT_OUT = ("data_docs", "logs", "*.lock", "*.crc")


def main(archive: Path) -> None:
    shutil.rmtree(HOME, ignore_errors=True)
    os.environ["CHANGELEDGER_HOME"] = str(HOME)
    os.environ["CHANGELEDGER_JARS"] = str(JARS / "spark")
    scratch = Path(tempfile.mkdtemp())
    with KafkaBroker(JARS / "kafka", scratch / "kafka") as kafka, Postgres(scratch / "postgres") as postgres:
        os.environ.update(connections(kafka, postgres))
        _make(kafka.bootstrap, postgres.url)
    left_out = [f"--exclude={one}" for one in _LEFT_OUT]
    packed = ["tar", "-cJf", str(archive), "-C", str(HOME.parent), *left_out, HOME.name]
    subprocess.run(packed, check=True, env={**os.environ, "XZ_OPT": "-9e"})


def connections(kafka: KafkaBroker, postgres: Postgres) -> dict[str, str]:
    """As variables of the environment."""
    of_kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": kafka.bootstrap}}
    return {
        "AIRFLOW_CONN_OLD_KAFKA": json.dumps(of_kafka),
        "AIRFLOW_CONN_OLD_POSTGRES": json.dumps(postgres.connection),
    }


def _make(bootstrap: str, url: str) -> None:
    # Where version 0.1 has them; this version has not.
    from changeledger.cli.compare import compare_and_report  # noqa: PLC0415
    from changeledger.cli.verify import verify_and_report  # noqa: PLC0415

    spark = spark_session("the lake of version 0.1")
    feeds = records.feeds()
    ces, cdc = feeds["old_ces"], feeds["old_cdc"]
    database = Database.model_validate(
        {"database": "shop", "reference": "old_cdc", "verify": {"settle": 0, "connection": "old_postgres",
                                                                "cdc_schema": "cdc"}}
    )  # fmt: skip
    reached = BEGIN
    for number in range(2):
        records.send(number, bootstrap, url)
        over = Window(start=reached, end=datetime.now(UTC))
        for feed in (ces, cdc):
            records.run(spark, feed, over)
        reached = over.end
    print("replayed:", quarantine.replay(spark, ces, Chosen(), print))
    with suppress(ChangeledgerError):
        compare_and_report(spark, database, feeds, False)
    _spoil(url)
    verify_and_report(spark, database, {"old_cdc": cdc})
    # A difference counts once the feed has ended a window behind the reading.
    behind = Window(start=reached, end=datetime.now(UTC))
    records.run(spark, cdc, behind)
    with suppress(ChangeledgerError):
        verify_and_report(spark, database, {"old_cdc": cdc})
    repair = Window(
        start=behind.end, end=behind.end + timedelta(seconds=1), request=Request(mode="repair", run="by hand")
    )
    records.run(spark, cdc, repair)
    records.send(2, bootstrap, url)
    flies = Window(start=behind.end, end=datetime.now(UTC))
    records.run(spark, cdc, flies, stages=3)
    ControlStore(Settings().control_url).release_lease("old_cdc", flies.holder)
    for name in ("old_ces", "old_cdc", "changeledger"):
        for row in spark.sql(f"SHOW TABLES IN lake.{name}").collect():
            print(name, row["tableName"], spark.table(f"lake.{name}.{row['tableName']}").count())
    spark.stop()


def _spoil(url: str) -> None:
    """What no change says: one row of the source is gone, another one differs."""
    with psycopg.connect(plain_url(url)) as session:
        session.execute("DELETE FROM dbo.customers WHERE id = (SELECT min(id) FROM dbo.customers)")
        session.execute(
            "UPDATE dbo.customers SET name = 'Other' WHERE id = (SELECT max(id) FROM dbo.customers)"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
