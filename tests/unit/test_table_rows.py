"""Raw rows of change tables: each has a `record` of its own, however many are equal."""

from __future__ import annotations

from pyspark.sql import Row, SparkSession

from changeledger.change import RECORD_TYPE
from changeledger.dialects.table_rows import are_crowded, numbered

RAW = f"run_id string, record {RECORD_TYPE}, _instance string, id int, `a b` string, number int"


def raw(row: str, key: int, cell: str | None = None) -> tuple[object, ...]:
    return "run", ("orders__ct", None, None, row.encode()), "orders__ct", key, cell, 7


def test_rows_at_one_place_are_numbered(spark: SparkSession) -> None:
    rows = [raw("1I", 1), raw("2I", 2), raw("2I", 2), raw("2I", 2), raw("3I", 3), raw("3I", 3, "x")]
    frame = spark.createDataFrame(rows, RAW)
    assert are_crowded(frame)
    assert not are_crowded(frame.limit(2))
    found = numbered(frame)
    assert found.schema == frame.schema
    assert not are_crowded(found)
    numbers: dict[bytes, list[int | None]] = {}
    for row in found.collect():
        numbers.setdefault(bytes(row["record"]["row"]), []).append(row["record"]["offset"])
    assert {place: sorted(n or 0 for n in told) for place, told in numbers.items()} == {
        b"1I": [0], b"2I": [0, 1, 2], b"3I": [0, 1],
    }  # fmt: skip
    assert all(None in told for told in numbers.values()), "the first has none"


def test_rows_that_differ_have_the_same_number_whatever_their_order(spark: SparkSession) -> None:
    """A column of the source may have any name."""
    rows = [raw("1I", 1), raw("1I", 2), raw("1I", 1, "x"), raw("1I", 3)]

    def told(order: list[tuple[object, ...]]) -> set[tuple[object, ...]]:
        def plain(row: Row) -> tuple[object, ...]:
            return row["id"], row["a b"], row["number"], row["record"]["offset"]

        return {plain(row) for row in numbered(spark.createDataFrame(order, RAW)).collect()}

    assert told(rows) == told(rows[::-1]) == told(rows[2:] + rows[:2])
