"""Comparing published ledgers: what is kept in the lake and the control store, and what people see."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.ledgers import contract_of, ledger

from changeledger import change
from changeledger.config import Feed, Settings
from changeledger.contract import TableNames
from changeledger.databases import Database
from changeledger.errors import ConfigError, FeedsDisagree
from changeledger.inspection.comparing import compare_and_report
from changeledger.stages import compare
from changeledger.storage import lake
from changeledger.storage.control import ControlStore
from sourcelab import faults
from sourcelab.log import Log, simulate
from sourcelab.tables import CUSTOMERS, ORDERS

TABLES = (CUSTOMERS, ORDERS)


def feed_of(name: str, database: str) -> Feed:
    return Feed.model_validate(
        {
            "feed": name, "dialect": "ces", "database": database, "connection": "none",
            "source": {"topics": ["t"]}, "tables": [{"table": t.full_name} for t in TABLES],
        }
    )  # fmt: skip


def publish(spark: SparkSession, feed: Feed, log: Log) -> None:
    control = ControlStore(Settings().control_url)
    lake.create_namespace(spark, feed.namespace)
    for table in TABLES:
        control.save_contract(feed.feed, contract_of(table), "window")
        rows = ledger(spark, log, table, feed=feed.feed)
        rows.writeTo(TableNames.of(feed.namespace, table.full_name).changes).using(
            "iceberg"
        ).createOrReplace()


def test_what_differs_is_kept_and_shown(spark: SparkSession) -> None:
    log = simulate(11, 40)
    feeds = {name: feed_of(name, "billing") for name in ("old_tool", "new_tool")}
    database = Database(database="billing", reference="old_tool")
    told, lost = faults.lose(log, 20)
    publish(spark, feeds["old_tool"], log)
    publish(spark, feeds["new_tool"], told)
    with pytest.raises(FeedsDisagree, match=r"new_tool .* missing"):
        compare_and_report(spark, database, feeds)
    rows = ControlStore(Settings().control_url).comparisons("billing")
    assert {row.table for row in rows} == {"dbo.customers", "sales.orders"}
    touched = {c.table.full_name for _, c in lost.changes} & {row.table for row in rows}
    assert {row.table for row in rows if row.outcome == "differ"} == touched != set()
    # The last transaction may be there in part: it is the fence.
    assert {row.to_lsn for row in rows} == {log.transactions[-1].commit_lsn.hex().upper()}
    assert all(sum(agreeing for agreeing, _ in row.spans) == row.counts["equal"] for row in rows)
    findings = spark.table(compare.FINDINGS).where("database = 'billing'").collect()
    assert {bytes(row["commit_lsn"]) for row in findings} == {log.transactions[20].commit_lsn}
    assert {row["verdict"] for row in findings} == {"missing"}
    assert all(row["key"] and row["record"] and row["other_record"] is None for row in findings)
    folder = Settings().data_docs / "compare_billing"
    page = (folder / "index.html").read_text("utf-8")
    assert "new_tool does not agree" in page
    assert log.transactions[20].commit_lsn.hex().upper() in page
    assert "new_tool does not agree" in (folder / "comparison.md").read_text("utf-8")


def test_a_comparison_goes_on_where_the_last_one_ended(spark: SparkSession) -> None:
    log = simulate(12, 40)
    feeds = {name: feed_of(name, "stock") for name in ("one", "two")}
    database = Database(database="stock")
    first = replace(log, transactions=log.transactions[:20])
    for feed in feeds.values():
        publish(spark, feed, first)
    assert {row.outcome for row in compare.run(spark, database, feeds)} == {"agree"}
    assert compare.run(spark, database, feeds) == []
    told, fault = faults.change_value(log, 30, Random(1))
    ((transaction, spoilt),) = fault.changes
    publish(spark, feeds["one"], log)
    publish(spark, feeds["two"], told)
    with pytest.raises(FeedsDisagree, match="1 differs"):
        compare.run(spark, database, feeds)
    (found,) = spark.table(compare.FINDINGS).where("database = 'stock'").collect()
    assert (found["table"], bytes(found["commit_lsn"])) == (spoilt.table.full_name, transaction.commit_lsn)
    (cell,) = found["cells"]
    assert cell["name"] == fault.column
    assert cell["after"] != cell["after_other"]
    begun = {row.from_lsn for row in ControlStore(Settings().control_url).comparisons("stock")}
    assert first.transactions[-1].commit_lsn.hex().upper() in begun
    # Corrected, and all of it compared again: what was found is gone.
    publish(spark, feeds["two"], log)
    assert {row.outcome for row in compare.run(spark, database, feeds, again=True)} == {"agree"}


def test_repairs_are_not_compared(spark: SparkSession) -> None:
    """They are of no tool's telling; and that they have no LSN does not leave the others without one."""
    log = simulate(13, 30)
    feeds = {name: feed_of(name, "mended") for name in ("right", "repaired")}
    for feed in feeds.values():
        publish(spark, feed, log)
    changes = TableNames.of(feeds["repaired"].namespace, CUSTOMERS.full_name).changes
    some = spark.table(changes).where("operation = 'update'").limit(3)
    repairs = some.withColumns(
        {
            "flags": F.array(F.lit(change.REPAIRED)),
            "commit_lsn": F.lit(None).cast("binary"),
            "change_id": F.concat(F.lit("repair of "), "change_id"),
        }
    )
    repairs.writeTo(changes).append()
    assert spark.table(changes).where("commit_lsn IS NULL").count() == 3
    rows = compare.run(spark, Database(database="mended"), feeds)
    assert {(row.table, row.outcome, row.to_lsn) for row in rows} == {
        (table.full_name, "agree", log.transactions[-1].commit_lsn.hex().upper()) for table in TABLES
    }


def test_one_feed_alone_has_nothing_to_be_compared_with() -> None:
    with pytest.raises(ConfigError, match="nothing to compare"):
        Database(database="billing").compared({"one": feed_of("one", "billing")})
    with pytest.raises(ConfigError, match="no feed 'three'"):
        Database(database="billing", reference="three").compared(
            {name: feed_of(name, "billing") for name in ("one", "two")}
        )
