"""Rows that are twice in change tables, in one window and across windows: each change is published once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from unittest import mock

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.kernels.arrow import Bools
from changeledger.model.contract import Contract
from changeledger.model.errors import AuditFailed
from changeledger.reconcile import duplicates, ledger_kernels
from changeledger.stages import audit, extract, normalize, reconcile
from sourcelab import qlik_tables, sqlserver_cdc
from sourcelab.log import Log, simulate
from sourcelab.postgres import plain_url
from sourcelab.services import Postgres
from tests.integration.line import (
    KEYS,
    cdc_feed,
    current_rows,
    lake_name,
    qlik_tables_feed,
    rows,
    run,
    window,
)

pytestmark = pytest.mark.integration

TABLES = ("dbo.customers", "sales.orders", "dbo.parts")
# A window ends after this transaction; the last ones of the first window come again in the second.
CUT, AGAIN = 8, (5, 8)
FULL_LOAD = {"region": "ZZ", "order_no": 1, "total": 5, "ordered_at": "2024-01-01", "priority": 1}


def feeds(postgres: Postgres, patch: pytest.MonkeyPatch) -> dict[str, Feed]:
    keyed = [{"table": table, "key": KEYS[table]} for table in TABLES]
    return {
        "cdc": cdc_feed("twice_cdc", postgres, patch, tables=[{"table": table} for table in TABLES]),
        "qlik": qlik_tables_feed("twice_qlik", postgres, patch, tables=keyed),
    }


def rows_of(log: Log, dialect: str, since: int, until: int) -> int:
    """Counts the change rows of the feeds' tables."""
    reported = sqlserver_cdc.change_rows if dialect == "cdc" else qlik_tables.change_rows
    return sum(table.full_name in TABLES for tx in log.transactions[since:until] for table, _ in reported(tx))


def load_row_of_full_load(postgres: Postgres) -> None:
    """Inserts a row of Qlik's full load twice: it has no header values."""
    names = ", ".join(FULL_LOAD)
    values = ", ".join(["%s"] * len(FULL_LOAD))
    with psycopg.connect(plain_url(postgres.url)) as session:
        for _ in range(2):
            session.execute(
                f"INSERT INTO sales.orders__ct ({names}) VALUES ({values})", [*FULL_LOAD.values()]
            )


@pytest.mark.long
def test_each_change_is_published_once(
    spark: SparkSession, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = simulate(4, 16)
    last = len(log.transactions)
    sqlserver_cdc.load(postgres.url, log, to_tx=CUT)
    qlik_tables.load(postgres.url, log, to_tx=CUT)
    # All rows of the first window are there twice, and rows of the second even three times.
    sqlserver_cdc.append_rows(postgres.url, log, 0, CUT)
    qlik_tables.append(postgres.url, log, 0, CUT)
    load_row_of_full_load(postgres)
    reported = feeds(postgres, monkeypatch)
    for feed in reported.values():
        run(spark, feed, window())
    sqlserver_cdc.append(postgres.url, log, CUT, last)
    qlik_tables.append(postgres.url, log, CUT, last)
    for _ in range(2):
        sqlserver_cdc.append_rows(postgres.url, log, CUT, last)
        qlik_tables.append(postgres.url, log, CUT, last)
    sqlserver_cdc.append_rows(postgres.url, log, *AGAIN)
    qlik_tables.append(postgres.url, log, *AGAIN)
    for feed in reported.values():
        run(spark, feed, window())
    for dialect, feed in reported.items():
        for name in TABLES:
            table = log.table(name)
            published = current_rows(feed, table)
            published.pop((FULL_LOAD["region"], FULL_LOAD["order_no"]), None)
            assert published == log.final_rows(table), (dialect, name)
            changes = rows(spark, lake_name(feed, name, "_changes"))
            streamed = [row for row in changes if row["operation"] != "snapshot"]
            assert len(streamed) == len(log.changes(table)), (dialect, name)
        said = Counter(row["disposition"] for row in rows(spark, feed.lake.dispositions))
        raw = sum(spark.table(f"lake.{feed.feed}.raw_{t.replace('.', '_')}").count() for t in TABLES)
        # The second window begins where time does, so it reads all rows again.
        first, second = 2 * rows_of(log, dialect, 0, CUT), 3 * rows_of(log, dialect, CUT, last)
        assert raw == 2 * first + second + rows_of(log, dialect, *AGAIN) + (4 if dialect == "qlik" else 0)
        once = rows_of(log, dialect, 0, last) + (1 if dialect == "qlik" else 0)
        assert said == {"duplicate": raw - once}, dialect
    snapshot = [r for r in rows(spark, lake_name(reported["qlik"], "sales.orders", "_changes"))
                if r["operation"] == "snapshot"]  # fmt: skip
    assert len(snapshot) == 1


class TakesAllAway(ledger_kernels.ResolveChanges):
    """Removes the first delivery with the others, in Spark's worker, where the kernel runs."""

    def __call__(self, tables: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
        usual = duplicates.repeated

        def each(new: pa.Table, _: pa.Table, contract: Contract) -> tuple[Bools, pa.StringArray]:
            return usual(new, new, contract)

        # A worker has no pytest.
        with mock.patch.object(duplicates, "repeated", each):
            return super().__call__(tables)


@pytest.mark.long
def test_an_audit_fails_where_duplicates_leave_no_change(
    spark: SparkSession, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = simulate(4, 3)
    sqlserver_cdc.load(postgres.url, log)
    sqlserver_cdc.append_rows(postgres.url, log, 0, 2)
    feed = cdc_feed("twice_lost", postgres, monkeypatch, tables=[{"table": "dbo.customers"}])
    over = window()
    run(spark, feed, over, (extract,))
    with monkeypatch.context() as broken:
        broken.setattr(ledger_kernels, "ResolveChanges", TakesAllAway)
        run(spark, feed, over, (normalize, reconcile))
    with pytest.raises(AuditFailed, match="duplicates_leave_one"):
        audit.run(spark, feed, over)
    run(spark, feed, over)
    customers = rows(spark, lake_name(feed, "dbo.customers"))
    assert {row["id"] for row in customers} == {key for (key,) in log.final_rows(log.table("dbo.customers"))}
