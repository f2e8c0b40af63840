"""What only messages in the middle of a Debezium topic tell, which the driver does not look at."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.conftest import MESSAGE

from changeledger.config import Feed
from changeledger.dialects.base import Known, Told, ends
from changeledger.dialects.debezium import DEBEZIUM
from changeledger.dialects.debezium_shared import samples_between

TOPIC = "s.dbo.t"
FEED = Feed.model_validate(
    {
        "feed": "f", "dialect": "debezium", "database": "d", "connection": "none",
        "source": {"topics": ["*"]}, "tables": [{"table": "dbo.t"}, {"table": "dbo.u"}],
    }
)  # fmt: skip
# So many that neither the first nor the last ones reach the middle.
AROUND = 25


def event(table: str, after: dict[str, Any]) -> dict[str, Any]:
    position = {"commit_lsn": "0000002a:000003b0:0005", "change_lsn": "0000002a:000003b0:0003"}
    source = {"db": "d", "schema": "dbo", "table": table, "ts_ms": 1786119900883, **position}
    return {"before": None, "after": after, "source": source, "op": "c"}


def wrapped(table: str, after: dict[str, Any]) -> dict[str, Any]:
    types = {int: "int32", str: "string"}
    fields = [{"type": types[type(value)], "optional": True, "field": name} for name, value in after.items()]
    block = {"type": "struct", "fields": [{"type": "struct", "field": "after", "fields": fields}]}
    return {"schema": block, "payload": event(table, after)}


def topic(spark: SparkSession, middle: list[Any], around: dict[str, Any], space: str = "") -> DataFrame:
    told = [around] * AROUND + middle + [around] * AROUND

    def text(message: Any) -> bytes | None:
        return message and json.dumps(message, separators=("," + space, ":" + space)).encode()

    rows = [(TOPIC, 0, at, None, b'{"id": 1}', text(one), []) for at, one in enumerate(told)]
    return spark.createDataFrame(rows, MESSAGE)


def told(messages: DataFrame) -> dict[str, Told]:
    return {one.table: one for one in DEBEZIUM.survey(messages, FEED, Known({}, {}, {})).told}


def test_a_column_that_is_there_for_a_while(spark: SparkSession) -> None:
    middle = [wrapped("t", {"id": 1, "note": "there"})]
    one = told(topic(spark, middle, wrapped("t", {"id": 1})))["dbo.t"]
    assert one.shape is not None
    assert [(c.name, c.type) for c in one.shape.columns] == [("id", "int"), ("note", "nvarchar(max)")]
    rows = DEBEZIUM.decode(one.records, one.shape, FEED).orderBy("record.offset").collect()
    assert {row["disposition"] for row in rows} == {"change"}
    assert rows[AROUND]["after"].asDict() == {"id": 1, "note": "there"}
    assert rows[0]["after_gaps"] == {"note": "not captured"}


@pytest.mark.parametrize("form", [event, wrapped])
def test_a_table_that_is_told_for_a_while(spark: SparkSession, form: Any) -> None:
    found = told(topic(spark, [form("u", {"id": 7}), None], form("t", {"id": 1})))
    assert {table: one.records.count() for table, one in found.items()} == {"dbo.t": 2 * AROUND, "dbo.u": 1}


@pytest.mark.parametrize("others", [[], [wrapped("u", {"id": 7})] * 60])
def test_a_type_that_is_another_for_a_while_is_not_the_tables(
    spark: SparkSession, others: list[dict[str, Any]]
) -> None:
    """Its messages do not fit, and are quarantined; the others do. In a topic of two tables as well."""
    middle = [wrapped("t", {"id": 1, "n": "many"}), *others]
    shape = told(topic(spark, middle, wrapped("t", {"id": 1, "n": 2})))["dbo.t"].shape
    assert shape is not None
    assert [c.type for c in shape.columns] == ["int", "int"]


@pytest.mark.parametrize("space", ["", " "])
@pytest.mark.parametrize("form", [event, wrapped])
def test_what_is_as_the_ends_is_not_looked_at(spark: SparkSession, form: Any, space: str) -> None:
    like = form("t", {"id": 1})
    messages = topic(spark, [None, {"ts_ms": 1}, like], like, space)
    assert samples_between(messages, ends(messages), FEED) == []


def test_a_schema_block_that_differs_in_each_message_is_looked_at_some_times(spark: SparkSession) -> None:
    middle = [wrapped("t", {"id": 1, f"c{number}": "x"}) for number in range(30)]
    messages = topic(spark, middle, wrapped("t", {"id": 1}))
    found = samples_between(messages, ends(messages), FEED)
    # The first and the last of each block, which here are one.
    assert [json.loads(one.value or b"")["payload"]["after"] for one in found] == [
        {"id": 1, f"c{number}": "x"} for number in range(20) for _ in range(2)
    ]
