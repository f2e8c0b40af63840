"""Faulty capture tools through all stages: the comparison finds each fault in its place, and nothing else."""

from __future__ import annotations

from random import Random

import pytest
from pyspark.sql import SparkSession

from changeledger.config.database import Database
from changeledger.model.errors import FeedsDisagree
from changeledger.model.table_names import FINDINGS
from changeledger.stages import compare
from sourcelab import ces, debezium, sqlserver_cdc
from sourcelab.faults import Fault
from sourcelab.log import Log, simulate
from sourcelab.messages import produce
from sourcelab.services import KafkaBroker, Postgres
from tests.injected import VERDICT, effects, with_faults
from tests.integration.line import cdc_feed, debezium_feed, message_feed, rows, run, window

pytestmark = [pytest.mark.integration, pytest.mark.long]

TABLES = ("dbo.customers", "sales.orders", "dbo.parts")
# table, verdict, commit LSN, columns
Finding = tuple[str, str, bytes, tuple[str, ...]]


def test_all_faults_of_two_feeds_together(
    spark: SparkSession, kafka: KafkaBroker, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = simulate(8, 30)
    tables = [{"table": table} for table in TABLES]
    (to_debezium, in_debezium), (to_ces, in_ces) = (
        with_faults(log, list(VERDICT), Random(seed), last=len(log.transactions) - 1) for seed in (1, 2)
    )
    produce(kafka.bootstrap, debezium.messages(to_debezium, schemas=True, snapshot=False, prefix="damaged"))
    produce(kafka.bootstrap, ces.messages(to_ces, topic="corrupt_ces"))
    sqlserver_cdc.load(postgres.url, log)
    feeds = [
        cdc_feed("intact", postgres, monkeypatch, tables=tables),
        debezium_feed("damaged", kafka, "damaged", monkeypatch, tables=tables),
        message_feed("corrupt_ces", "ces", kafka, ["corrupt_ces"], monkeypatch, tables=tables),
    ]
    for feed in feeds:
        run(spark, feed, window())
    database = Database(database="shop", reference="intact", verify=None)
    with pytest.raises(FeedsDisagree):
        compare.run(spark, database, {feed.feed: feed for feed in feeds})
    assert findings(spark, "damaged") == expected(log, in_debezium)
    assert findings(spark, "corrupt_ces") == expected(log, in_ces)


def findings(spark: SparkSession, feed: str) -> list[Finding]:
    return sorted(
        (
            row["table"],
            row["verdict"],
            bytes(row["commit_lsn"]),
            tuple(cell["name"] for cell in row["cells"] or []),
        )
        for row in rows(spark, FINDINGS)
        if row["feed"] == feed
    )


def expected(log: Log, injected: list[Fault]) -> list[Finding]:
    return sorted(
        (table.full_name, VERDICT[fault.kind], place, (fault.column,) if fault.column else ())
        for fault in injected
        for table in log.tables
        if table.full_name in TABLES
        for place, _ in effects(fault.changes, table)
    )
