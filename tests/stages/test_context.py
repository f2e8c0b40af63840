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
from tests.audit.tables import CONTRACT
from tests.feeds import feed_of
from tests.ledger_windows import BEGIN, begun


def test_a_branch_that_somebody_has_dropped_is_not_left_out(spark: SparkSession) -> None:
    """A release without one of its tables would be incomplete. It is refused even if Python skips asserts."""
    feed, over = feed_of("finished", CONTRACT.table), Window(start=BEGIN, end=BEGIN + timedelta(hours=1))
    ctx = begun(spark, feed, over)
    new_tables.create(feed.lake.dispositions, table_schema(change.DISPOSITION_COLUMNS))
    with pytest.raises(StageOrderError, match=r"is gone from lake.finished.dispositions"):
        ctx.finish("normalize", [feed.lake.dispositions])
    assert ctx.control.windows.stage(feed.feed, over, "normalize") is None
