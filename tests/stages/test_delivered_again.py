"""A second delivery is another change only if the source writes no position."""

from __future__ import annotations

import json
from typing import Any

from changeledger.cli.decode import reader, records


def metadata() -> dict[str, Any]:
    columns = {"id": {"ordinal": 1, "type": "INT4", "primaryKeyPosition": 1}}
    return {
        "schemaId": "one",
        "lineage": {"schema": "dbo", "table": "items"},
        "tableStructure": {"tableColumns": columns},
    }


def change(operation: str, sequence: int | None, position: str | None) -> dict[str, Any]:
    headers = {
        "operation": operation,
        "changeSequence": sequence and f"20260807162500{sequence:021}",
        "streamPosition": position,
        "externalSchemaId": "one",
    }
    return {"headers": headers, "data": {"id": 1}}


def dispositions(*reported: dict[str, Any]) -> list[str]:
    lines = [
        json.dumps({"topic": "items", "value": json.dumps(message)}) for message in (metadata(), *reported)
    ]
    read = records.messages(lines)
    results = reader.results(reader.feed_of("qlik_messages", read), read, {})
    return [result["disposition"] for result in results][1:]


def test_at_a_position_of_the_source_the_same_words_are_one_change() -> None:
    for position in (None, "mysql-bin.000001:4", "0000002a:000003b0:0005"):
        again = [change("INSERT", 1, position), change("INSERT", 1, position), change("INSERT", 2, position)]
        assert dispositions(*again) == ["change", "duplicate", "change"]


def test_rows_of_a_full_load_have_none() -> None:
    row = change("REFRESH", None, None)
    assert dispositions(row, row) == ["change", "change"]


def test_rows_of_a_snapshot_without_a_key_may_be_equal() -> None:
    """All rows have the snapshot's position, and a heap may hold a row twice."""
    source = {"schema": "dbo", "table": "heap", "snapshot": "true", "ts_ms": 1786119900883}
    source["commit_lsn"] = "0000002a:000003b0:0005"
    row = json.dumps({"value": json.dumps({"op": "r", "after": {"a": "x"}, "source": source})})
    read = records.messages([row, row])
    results = reader.results(reader.feed_of("debezium", read), read, {})
    assert [result["disposition"] for result in results] == ["change", "change"]
