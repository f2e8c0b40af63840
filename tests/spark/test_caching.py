"""Rows that are cached are let go, however the work on them ends."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from changeledger.spark.caching import cached


def test_rows_are_at_hand_until_the_block_ends(spark: SparkSession) -> None:
    one, other = spark.range(3), spark.range(5)
    with cached() as keep:
        assert keep(one) is one
        keep(other)
        assert one.is_cached
        assert other.storageLevel.useMemory
        assert (one.count(), other.count()) == (3, 5)
    assert not one.storageLevel.useMemory
    assert not other.storageLevel.useMemory


def test_an_error_lets_them_go(spark: SparkSession) -> None:
    rows = spark.range(7)

    def fails() -> None:
        with cached() as keep:
            assert keep(rows).count() == 7
            raise ValueError("in between")

    with pytest.raises(ValueError, match="in between"):
        fails()
    assert not rows.storageLevel.useMemory
