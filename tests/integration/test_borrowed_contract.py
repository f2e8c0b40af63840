"""Messages without a schema are read by the columns of another feed of their database."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from changeledger.model.errors import AuditFailed
from changeledger.stages import audit, extract, normalize, reconcile
from sourcelab import debezium, sqlserver_cdc
from sourcelab.log import simulate
from sourcelab.messages import produce
from sourcelab.services import KafkaBroker, Postgres
from tests.integration.line import cdc_feed, debezium_feed, lake_name, plain, rows, run, window

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
    table = log.table(TABLE)
    sqlserver_cdc.load(postgres.url, log)
    lender = cdc_feed("lender", postgres, monkeypatch, tables=[{"table": TABLE}])
    borrower = debezium_feed("borrower", kafka, "bare", monkeypatch, tables=[{"table": TABLE}])
    reported = debezium.messages(log, schemas=False, snapshot=False, prefix="bare")
    produce(kafka.bootstrap, [m for m in reported if m.topic.endswith(TABLE)], partitions=1)
    folder = tmp_path / "feeds"
    folder.mkdir()
    for feed in (lender, borrower):
        (folder / f"{feed.feed}.yaml").write_text(yaml.safe_dump(feed.model_dump(mode="json")), "utf-8")
    monkeypatch.setenv("CHANGELEDGER_FEEDS", str(folder))
    over = window()
    run(spark, borrower, over, (extract, normalize, reconcile))
    with pytest.raises(AuditFailed, match="run another feed of the same `database:` first"):
        audit.run(spark, borrower, over)
    run(spark, lender, window())
    run(spark, borrower, over)
    for feed in (lender, borrower):
        published = {
            tuple(row[name] for name in table.key): {n: plain(row[n]) for n in table.names}
            for row in rows(spark, lake_name(feed, TABLE))
        }
        assert published == log.final_rows(table), feed.feed
