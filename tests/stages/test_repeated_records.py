"""Records that repeat published changes: the ledger is read where these stand, not all of it."""

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
from changeledger.model import change
from changeledger.model.table_names import TableNames
from changeledger.spark.rows import Workers
from changeledger.stages.auditing.judged_rows import JudgedRows
from changeledger.stages.common.context import StageContext
from tests.key_moves import CONTRACT
from tests.ledger_windows import carry, feed_of
from tests.reconcile.test_snapshot_rows import rows_for
from tests.stored_rows import stored_rows

NAMES = TableNames.of("repeated_records", CONTRACT.table)


@pytest.fixture(scope="module")
def feed(spark: SparkSession) -> Feed:
    """A window has key 0, the next one key 1, and the last one both of them again."""
    feed = feed_of("repeated_records", CONTRACT)
    rows = [rows_for(key, [("insert", key, "x")])[0] | {"commit_lsn": bytes([key] * 10)} for key in range(2)]
    for number, part in enumerate(([rows[0]], [rows[1]], rows)):
        carry(spark, feed, CONTRACT, part, number)
    return feed


def ledger_rows() -> list[dict[str, Any]]:
    return sorted(stored_rows(NAMES.changes), key=lambda row: row["commit_lsn"])


def stayed(spark: SparkSession, named: dict[str, Any]) -> list[str]:
    """Ids of the ledger that the audit of another run finds for one such duplicate."""
    workers, snapshot = Workers(lambda: spark), refs.snapshot_of(NAMES.changes)
    ctx = SimpleNamespace(
        workers=workers, id="another", names={CONTRACT.table: NAMES}, snapshots={NAMES.changes: snapshot}
    )
    duplicate = {"table": CONTRACT.table, "reason": change.DELIVERED_AGAIN, **named}
    rows = workers.given(pa.Table.from_pylist([duplicate], ROWS))
    found = JudgedRows(cast("StageContext", ctx), {}).stayed(CONTRACT, rows).collected()
    return [str(text) for text in column(found, "id").to_pylist()]


def test_a_record_says_where_the_change_stands_that_it_repeats(feed: Feed) -> None:
    said = {row["detail"]: row["commit_lsn"] for row in stored_rows(feed.lake.dispositions)}
    assert said == {row["change_id"]: row["commit_lsn"] for row in ledger_rows()}
    assert len(said) == 2


@pytest.mark.usefixtures("feed")
def test_no_other_file_is_read_for_it(spark: SparkSession) -> None:
    first, second = ledger_rows()
    own, others = first["commit_lsn"], second["commit_lsn"]
    assert stayed(spark, {"detail": first["change_id"], "commit_lsn": own}) == [first["change_id"]]
    assert stayed(spark, {"detail": first["change_id"], "commit_lsn": others}) == []
