"""Which published rows would be less known after a reset."""

from __future__ import annotations

from pyspark.sql import SparkSession

from changeledger.stages.auditing.resetting import keys_less_known


def test_a_row_that_came_again_is_another_one(spark: SparkSession) -> None:
    """The column of the rows that came again was dropped; for the last one, a change in between is lost."""
    key = "key struct<id: int>"
    published = [((1,), [], b"\x01"), ((2,), ["a"], b"\x02"), ((3,), [], b"\x85"), ((4,), [], b"\x04")]
    rows = [((1,), []), ((2,), ["a"]), ((3,), ["a"]), ((4,), ["a"])]
    history = [
        ((1,), False, b"\x01"), ((2,), False, b"\x02"), ((3,), False, b"\x85"), ((3,), True, b"\x86"),
        ((3,), False, b"\x87"), ((4,), True, b"\x03"), ((4,), False, b"\x04"), ((4,), False, b"\x09"),
    ]  # fmt: skip
    less = keys_less_known(
        spark.createDataFrame(published, f"{key}, unknown array<string>, _sort_key binary"),
        spark.createDataFrame(rows, f"{key}, unknown_now array<string>"),
        spark.createDataFrame(history, f"{key}, _is_deleted boolean, _sort_key binary"),
    )
    assert [row["key"]["id"] for row in less.collect()] == [4]
