"""Discovery routes every message of a window to exactly one table, or to none."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from changeledger.config.feed import Feed
from changeledger.dialects.kernel import EarlierWindows
from changeledger.dialects.qlik_messages.dialect import QLIK_MESSAGES
from changeledger.dialects.qlik_messages.discovery import Discovery
from changeledger.kernels.arrow import MESSAGE
from tests.dialects.reading import NONE, records_of

FEED = Feed.model_validate(
    {
        "feed": "golden", "dialect": "qlik_messages", "database": "shop", "connection": "shop",
        "source": {"topics": ["*"]}, "tables": [{"table": "dbo.items"}, {"table": "dbo.orders"}],
    }
)  # fmt: skip
NOON = datetime(2026, 8, 7, 12, tzinfo=UTC)


def metadata(schema_id: str, table: str, *columns: str) -> dict[str, Any]:
    reported = {
        name: {"ordinal": at, "type": "INT4", "primaryKeyPosition": int(at == 1)}
        for at, name in enumerate(columns, 1)
    }
    lineage = {"schema": "dbo", "table": table}
    return {"schemaId": schema_id, "lineage": lineage, "tableStructure": {"tableColumns": reported}}


def data(schema_id: str | None, table: str | None = None, **row: int) -> dict[str, Any]:
    names = {} if table is None else {"schema": "dbo", "table": table}
    return {**names, "headers": {"operation": "REFRESH", "externalSchemaId": schema_id}, "data": row}


def window(*messages: tuple[str, int | None, Any]) -> pa.RecordBatch:
    """A batch of messages, given as (topic, minutes after noon, message). The offset is the index."""
    rows: list[dict[str, Any]] = []
    for offset, (topic, minutes, message) in enumerate(messages):
        text = json.dumps(message) if isinstance(message, dict) else message
        place = {"topic": topic, "partition": 0, "offset": offset}
        at = None if minutes is None else NOON + timedelta(minutes=minutes)
        said: dict[str, Any] = {"timestamp": at, "key": None, "value": text and text.encode(), "headers": []}
        rows.append(place | said)
    return pa.RecordBatch.from_pylist(rows, MESSAGE)


def discovered(raw: pa.RecordBatch) -> Discovery:
    """Discovers from parts of three messages each, as Spark's partitions would provide them."""
    parts = [QLIK_MESSAGES.kernel.facts(raw.slice(at, 3), NONE) for at in range(0, raw.num_rows + 1, 3)]
    discovery: Discovery = QLIK_MESSAGES.kernel.discover(
        QLIK_MESSAGES.kernel.merged(parts), FEED, EarlierWindows({}, {}, {})
    )
    return discovery


def offsets_of(raw: pa.RecordBatch, discovery: Discovery) -> list[tuple[tuple[str, ...], list[int]]]:
    """Returns for each discovered table its name and columns, and the offsets of its messages."""
    return [
        (
            (table.table, *table.writer_schema.names),
            offsets(records_of(QLIK_MESSAGES.kernel, number, raw, discovery)),
        )
        for number, table in enumerate(discovery.tables)
    ]


def offsets(raw: pa.RecordBatch) -> list[int]:
    return sorted(raw.column("offset").to_pylist())


def others(raw: pa.RecordBatch, discovery: Discovery) -> pa.RecordBatch:
    return raw.filter(QLIK_MESSAGES.kernel.routes(raw, discovery).is_null())


def test_a_topic_of_everything() -> None:
    raw = window(
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
    discovery = discovered(raw)
    # Neither the broken message nor its topic names a table.
    assert offsets_of(raw, discovery) == [(("dbo.items", "id"), [2, 9]), (("dbo.orders", "no"), [3, 8])]
    rows = QLIK_MESSAGES.kernel.decode_other(others(raw, discovery), FEED, discovery).to_pylist()
    waiting, tombstone = [row["detail"] for row in rows if row["disposition"] in {"pending", "tombstone"}]
    assert waiting.startswith("no metadata for the schema id unknown yet: ")
    assert tombstone is None
    assert [(row["source_position"]["offset"], row["disposition"], row["reason"]) for row in rows] == [
        (0, "control", "metadata"),
        (1, "control", "metadata"),
        (4, "pending", "metadata_unknown"),
        (5, "control", "table_not_in_feed"),
        (6, "quarantined", "not_json"),
        (7, "tombstone", None),
        (10, "quarantined", "unparseable_json"),
        (11, "quarantined", "no_operation"),
    ]


def test_a_topic_of_one_table_keeps_its_broken_messages() -> None:
    raw = window(
        ("qlik.dbo.items", 0, metadata("i1", "items", "id")),
        ("qlik.dbo.items", 1, data("i1", id=1)),
        ("qlik.dbo.items", 1, "{"),
        ("qlik.dbo.items", None, None),
    )
    discovery = discovered(raw)
    assert offsets_of(raw, discovery) == [(("dbo.items", "id"), [1, 2, 3])]
    assert offsets(others(raw, discovery)) == [0]


def test_versions_without_a_schema_id_follow_the_time() -> None:
    raw = window(
        ("qlik.dbo.items", 5, metadata("i1", "items", "id")),
        ("qlik.dbo.items", 4, data(None, id=1)),
        ("qlik.dbo.items", 6, data(None, id=2)),
        ("qlik.meta", 10, metadata("i2", "items", "id", "qty")),
        ("qlik.dbo.items", 10, data(None, id=3, qty=1)),
        ("qlik.dbo.items", None, data(None, id=4)),
        ("qlik.dbo.items", 11, data("i1", id=5)),
    )
    discovery = discovered(raw)
    # The schema id decides, whatever the time of the message.
    assert offsets_of(raw, discovery) == [
        (("dbo.items", "id"), [1, 2, 5, 6]),
        (("dbo.items", "id", "qty"), [4]),
    ]
    assert offsets(others(raw, discovery)) == [0, 3]


def test_an_empty_schema_id_is_none() -> None:
    """An empty schema id counts as none. It is not an id shared by all tables, whose metadata never comes."""
    enveloped = {"type": "DT", "messageSchemaId": "", "message": data("", "items", id=3)}
    twice = json.dumps(data("", "orders", id=4)).replace('"data"', '"x": 1, "x": 2, "data"')
    raw = window(
        ("meta", 0, metadata("", "items", "id")), ("meta", 0, metadata("", "orders", "id")),
        ("dbo.items", 1, data("", id=1)), ("dbo.orders", 1, data("", id=2)),
        ("all", 1, enveloped), ("all", 1, twice),
    )  # fmt: skip
    discovery = discovered(raw)
    assert offsets_of(raw, discovery) == [(("dbo.items", "id"), [2, 4]), (("dbo.orders", "id"), [3, 5])]
    assert {said.reason for said in discovery.metadata.values()} == {"metadata"}


def test_a_window_of_nothing() -> None:
    discovery = discovered(window())
    assert (list(discovery.tables), dict(discovery.new_writer_schemas)) == ([], {})
    assert others(window(), discovery).num_rows == 0
