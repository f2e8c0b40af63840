"""The context that every stage of a run works with."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from changeledger.kernels.arrow import table_schema
from changeledger.lake import new_tables
from changeledger.model import change
from changeledger.model.errors import StageOrderError
from changeledger.model.window import Window
from changeledger.spark.rows import Workers
from changeledger.stages.common.context import StageContext, take_lease
from tests.audit.tables import CONTRACT
from tests.ledger_windows import BEGIN, feed_of


def test_a_branch_that_somebody_has_dropped_is_not_left_out(spark: SparkSession) -> None:
    """A release without one of its tables would be incomplete. It is refused even if Python skips asserts."""
    feed, over = feed_of("finished", CONTRACT), Window(start=BEGIN, end=BEGIN + timedelta(hours=1))
    lease = take_lease(feed, over)
    assert lease is not None
    ctx = StageContext.begin(lambda: spark, Workers(lambda: spark), feed, over, lease)
    assert ctx is not None
    ctx.control.windows.open(feed.feed, over, None, {})
    new_tables.create(feed.lake.dispositions, table_schema(change.DISPOSITION_COLUMNS))
    with pytest.raises(StageOrderError, match=r"is gone from lake.finished.dispositions"):
        ctx.finish("normalize", [feed.lake.dispositions])
    assert ctx.control.windows.stage(feed.feed, over, "normalize") is None
