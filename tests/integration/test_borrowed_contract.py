"""Messages without a schema are read by the columns of another feed of their database."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from changeledger.model.errors import AuditFailed
from changeledger.stages import audit, extract, normalize, reconcile
from sourcelab import debezium, sqlserver_cdc
from sourcelab.log import simulate
from sourcelab.messages import produce
from sourcelab.services import KafkaBroker, Postgres
from tests.integration.line import assert_whole, cdc_feed, debezium_feed, run, window, write_feeds

pytestmark = pytest.mark.integration

TABLE = "sales.orders"


@pytest.mark.long
def test_columns_of_another_feed(
    spark: SparkSession,
    kafka: KafkaBroker,
    tmp_path: Path,
    postgres: Postgres,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = simulate(6, 20)
    sqlserver_cdc.load(postgres.url, log)
    lender = cdc_feed("lender", postgres, monkeypatch, tables=[{"table": TABLE}])
    borrower = debezium_feed("borrower", kafka, "bare", monkeypatch, tables=[{"table": TABLE}])
    reported = debezium.messages(log, schemas=False, snapshot=False, prefix="bare")
    produce(kafka.bootstrap, [m for m in reported if m.topic.endswith(TABLE)], partitions=1)
    write_feeds(tmp_path / "feeds", monkeypatch, lender, borrower)
    over = window()
    run(spark, borrower, over, (extract, normalize, reconcile))
    with pytest.raises(AuditFailed, match="run another feed of the same `database:` first"):
        audit.run(spark, borrower, over)
    run(spark, lender, window())
    run(spark, borrower, over)
    for feed in (lender, borrower):
        assert_whole(feed, log, TABLE)
