"""Every message of a window is in exactly one part of its survey, and in the right one."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.conftest import MESSAGE

from changeledger.config import Feed
from changeledger.dialects.base import Known, Survey
from changeledger.dialects.qlik_messages import decode_other
from changeledger.dialects.qlik_messages_survey import survey

FEED = Feed.model_validate(
    {
        "feed": "golden", "dialect": "qlik_messages", "database": "shop", "connection": "shop",
        "source": {"topics": ["*"]}, "tables": [{"table": "dbo.items"}, {"table": "dbo.orders"}],
    }
)  # fmt: skip
NOON = datetime(2026, 8, 7, 12, tzinfo=UTC)


def metadata(schema_id: str, table: str, *columns: str) -> dict[str, Any]:
    told = {
        name: {"ordinal": at, "type": "INT4", "primaryKeyPosition": int(at == 1)}
        for at, name in enumerate(columns, 1)
    }
    lineage = {"schema": "dbo", "table": table}
    return {"schemaId": schema_id, "lineage": lineage, "tableStructure": {"tableColumns": told}}


def data(schema_id: str | None, table: str | None = None, **row: int) -> dict[str, Any]:
    names = {} if table is None else {"schema": "dbo", "table": table}
    return {**names, "headers": {"operation": "REFRESH", "externalSchemaId": schema_id}, "data": row}


def window(spark: SparkSession, *messages: tuple[str, int | None, Any]) -> DataFrame:
    """(topic, minutes after noon, message); the offset is the place in the list."""
    rows = []
    for offset, (topic, minutes, message) in enumerate(messages):
        text = json.dumps(message) if isinstance(message, dict) else message
        at = None if minutes is None else NOON + timedelta(minutes=minutes)
        rows.append((topic, 0, offset, at, None, None if text is None else text.encode(), [], None))
    return spark.createDataFrame(rows, f"{MESSAGE}, since timestamp")


def parts(found: Survey) -> dict[tuple[str, ...], list[int]]:
    """Offsets by table and columns, and by `others`."""
    told = [((t.table, *(t.shape.names if t.shape else ())), t.records) for t in found.told]
    return {
        name: sorted(row["offset"] for row in records.select("offset").collect())
        for name, records in [*told, (("others",), found.others)]
    }


def test_a_topic_of_everything(spark: SparkSession) -> None:
    raw = window(
        spark,
        ("all", 0, metadata("i1", "items", "id")),
        ("all", 0, metadata("o1", "orders", "no")),
        ("all", 1, data("i1", id=1)),
        ("all", 1, data("o1", no=1)),
        ("all", 1, data("unknown", id=1)),
        ("all", 1, data(None, "elsewhere", id=1)),
        ("all", 1, "no json"),
        ("all", 1, None),
        ("all", None, data(None, "orders", no=2)),
        ("other", 1, data("i1", id=2)),
        ("other", 1, '{"headers":'),
        ("nothing", 1, "{}"),
    )
    found = survey(raw, FEED, Known({}, {}))
    assert parts(found) == {
        # Neither a broken message nor the name of its topic tells a table.
        ("dbo.items", "id"): [2, 9],
        ("dbo.orders", "no"): [3, 8],
        ("others",): [0, 1, 4, 5, 6, 7, 10, 11],
    }
    rows = (
        decode_other(found.others, FEED).select("record.offset", "disposition", "reason", "detail").collect()
    )
    assert [row["detail"] for row in rows if row["disposition"] in {"pending", "tombstone"}] == [
        "no metadata yet: unknown",
        None,
    ]
    assert sorted((row[0], row[1], row[2]) for row in rows) == [
        (0, "control", "metadata"),
        (1, "control", "metadata"),
        (4, "pending", "metadata_unknown"),
        (5, "control", "table_not_in_feed"),
        (6, "quarantined", "not_json"),
        (7, "tombstone", None),
        (10, "quarantined", "unparseable_json"),
        (11, "quarantined", "no_operation"),
    ]


def test_a_topic_of_one_table_keeps_its_broken_messages(spark: SparkSession) -> None:
    raw = window(
        spark,
        ("qlik.dbo.items", 0, metadata("i1", "items", "id")),
        ("qlik.dbo.items", 1, data("i1", id=1)),
        ("qlik.dbo.items", 1, "{"),
        ("qlik.dbo.items", None, None),
    )
    assert parts(survey(raw, FEED, Known({}, {}))) == {("dbo.items", "id"): [1, 2, 3], ("others",): [0]}


def test_versions_without_a_schema_id_follow_the_time(spark: SparkSession) -> None:
    raw = window(
        spark,
        ("qlik.dbo.items", 5, metadata("i1", "items", "id")),
        ("qlik.dbo.items", 4, data(None, id=1)),
        ("qlik.dbo.items", 6, data(None, id=2)),
        ("qlik.meta", 10, metadata("i2", "items", "id", "qty")),
        ("qlik.dbo.items", 10, data(None, id=3, qty=1)),
        ("qlik.dbo.items", None, data(None, id=4)),
        ("qlik.dbo.items", 11, data("i1", id=5)),
    )
    found = survey(raw, FEED, Known({}, {}))
    told = [t.shape.names for t in found.told if t.shape is not None]
    assert told == [("id",), ("id",), ("id", "qty")]
    offsets = [{row["offset"] for row in t.records.select("offset").collect()} for t in found.told]
    # The schema id decides, whenever the message was written.
    assert sorted(map(sorted, offsets)) == [[1, 2, 5], [4], [6]]
    assert parts(found)["others",] == [0, 3]


def test_a_window_of_nothing(spark: SparkSession) -> None:
    found = survey(window(spark).where(F.lit(True)), FEED, Known({}, {}))
    assert (list(found.told), dict(found.shapes), found.others.count()) == ([], {}, 0)
