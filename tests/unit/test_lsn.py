"""Log sequence numbers: 10 bytes, big-endian, in any of their written forms."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from changeledger import lsn

LSN = st.binary(min_size=10, max_size=10)
# One Spark job holds as many examples as hypothesis puts in a list.
ONE_JOB = settings(max_examples=3, deadline=None)


def forms(value: bytes) -> list[str]:
    digits = value.hex()
    groups = f"{digits[:8]}:{digits[8:16]}:{digits[16:]}"
    return [digits, digits.upper(), f"0x{digits}", f"0X{digits.upper()}", groups, groups.upper()]


MALFORMED = [
    "", "80", "0x", "nothing", "0000002a:000003b0:00", "0000002a:000003b0:000005", "0000002a-000003b0-0005",
    "000zz02a:000003b0:0005", "0000002a000003b000", "0x0000002a000003b000050", "0000002A000003B0000500",
]  # fmt: skip


@given(LSN)
def test_every_form_is_parsed(value: bytes) -> None:
    assert {lsn.parse(form) for form in forms(value)} == {value}


@pytest.mark.parametrize("text", [*MALFORMED, "NULL", "0000:027:00000758:0003"])
def test_what_is_not_an_lsn_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a log sequence number"):
        lsn.parse(text)


@ONE_JOB
@given(values=st.lists(LSN, min_size=20, max_size=60))
def test_text_in_spark_is_read_as_on_the_driver(spark: SparkSession, values: list[bytes]) -> None:
    texts = [(form, value) for value in values for form in forms(value)]
    rows = spark.createDataFrame(texts, "text string, bytes binary")
    read = lsn.from_text(F.col("text"))
    assert rows.where(~read.eqNullSafe(F.col("bytes"))).collect() == []
    back = lsn.to_text(F.col("bytes"))
    assert rows.where(~back.eqNullSafe(F.upper(F.hex("bytes")))).collect() == []


def test_malformed_text_in_spark_is_null_and_absent_is_told_apart(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(t,) for t in [*MALFORMED, "NULL", "null", None]], "text string")
    told = rows.select(
        "text", lsn.from_text(F.col("text")).alias("lsn"), lsn.is_absent(F.col("text")).alias("no")
    )
    found = told.collect()
    assert [row["lsn"] for row in found] == [None] * len(found)
    assert [row["text"] for row in found if row["no"]] == ["NULL", "null", None]


def test_colons_stand_in_their_places(spark: SparkSession) -> None:
    texts = ["0000:027:00000758:0003", "0000002a:000003b0:00:5", "::::::::000003b0::0005"]
    rows = spark.createDataFrame([(t,) for t in texts], "text string")
    assert [row[0] for row in rows.select(lsn.from_text(F.col("text"))).collect()] == [None] * len(texts)


@ONE_JOB
@given(numbers=st.lists(st.integers(min_value=0, max_value=2**63 - 1), min_size=2, max_size=100))
def test_big_endian_keeps_the_order_of_numbers(spark: SparkSession, numbers: list[int]) -> None:
    rows = spark.createDataFrame([(n,) for n in numbers], "n bigint")
    found = rows.select("n", lsn.big_endian(F.col("n"), 10).alias("b")).orderBy("b").collect()
    assert [row["n"] for row in found] == sorted(numbers)
    assert [bytes(row["b"]) for row in found] == [n.to_bytes(10, "big") for n in sorted(numbers)]


@ONE_JOB
@given(values=st.lists(LSN, min_size=2, max_size=100))
def test_spark_orders_them_as_unsigned_bytes(spark: SparkSession, values: list[bytes]) -> None:
    rows = spark.createDataFrame([(v,) for v in [*values, b"\x7f" * 10, b"\x80" * 10]], "lsn binary")
    found = [bytes(row["lsn"]) for row in rows.orderBy("lsn").collect()]
    assert found == sorted(found)
