"""Records that repeat published changes: only their positions in the ledger are read, not all of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from changeledger.audit.dispositions import ROWS
from changeledger.config.feed import Feed
from changeledger.kernels.arrow import column
from changeledger.lake import refs
from changeledger.lake.summaries import BuiltTable
from changeledger.model import change
from changeledger.model.table_names import TableNames
from changeledger.spark.rows import Workers
from changeledger.stages.auditing.judged_rows import JudgedRows
from changeledger.stages.common.context import StageContext
from tests.feeds import feed_of
from tests.key_moves import CONTRACT
from tests.ledger_windows import carry
from tests.reconcile.test_snapshot_rows import rows_for
from tests.stored_rows import stored_rows

NAMES = TableNames.of("repeated_records", CONTRACT.table)


@pytest.fixture(scope="module")
def feed(spark: SparkSession) -> Feed:
    """The first window has key 0, the second key 1, and the last both of them again."""
    feed = feed_of("repeated_records", CONTRACT.table)
    rows = [rows_for(key, [("insert", key, "x")])[0] | {"commit_lsn": bytes([key] * 10)} for key in range(2)]
    for number, part in enumerate(([rows[0]], [rows[1]], rows)):
        carry(spark, feed, CONTRACT, part, number)
    return feed


def ledger_rows() -> list[dict[str, Any]]:
    return sorted(stored_rows(NAMES.changes), key=lambda row: row["commit_lsn"])


def judged(spark: SparkSession, feed: Feed, run: str) -> JudgedRows:
    """Returns what the audit of that run reads from the tables as they are now."""
    tables = (NAMES.changes, feed.lake.dispositions)
    ctx = SimpleNamespace(
        workers=Workers(lambda: spark),
        id=run,
        lake=feed.lake,
        names={CONTRACT.table: NAMES},
        snapshots={name: refs.snapshot_of(name) for name in tables},
    )
    built = {name: SimpleNamespace(is_new=True) for name in tables}
    return JudgedRows(cast("StageContext", ctx), cast("dict[str, BuiltTable]", built))


def stayed(spark: SparkSession, feed: Feed, named: dict[str, Any]) -> list[str]:
    """Returns the ledger ids that the audit of another run finds for one such duplicate."""
    duplicate = {"table": CONTRACT.table, "reason": change.DELIVERED_AGAIN, **named}
    rows = Workers(lambda: spark).given(pa.Table.from_pylist([duplicate], ROWS))
    ids = judged(spark, feed, "another").stayed(CONTRACT, rows).collected()
    return [str(text) for text in column(ids, "id").to_pylist()]


def test_a_record_says_where_the_change_stands_that_it_repeats(feed: Feed) -> None:
    said = {row["detail"]: row["commit_lsn"] for row in stored_rows(feed.lake.dispositions)}
    assert said == {row["change_id"]: row["commit_lsn"] for row in ledger_rows()}
    assert len(said) == 2


def test_no_other_file_is_read_for_it(spark: SparkSession, feed: Feed) -> None:
    first, second = ledger_rows()
    its_lsn, other_lsn = first["commit_lsn"], second["commit_lsn"]
    assert stayed(spark, feed, {"detail": first["change_id"], "commit_lsn": its_lsn}) == [first["change_id"]]
    assert stayed(spark, feed, {"detail": first["change_id"], "commit_lsn": other_lsn}) == []


def test_each_table_reads_the_dispositions_of_its_own(spark: SparkSession, feed: Feed) -> None:
    (run,) = {row["window_id"] for row in stored_rows(feed.lake.dispositions)}
    rows = judged(spark, feed, run)
    asked = (CONTRACT.table, "dbo.other", None)
    assert [len(rows.dispositions(table).collected()) for table in asked] == [2, 0, 2]
