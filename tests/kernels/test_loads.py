"""Finds rows of a second full load. They have no position, so they do not show in rows that have changed.

Qlik's page "Data messages": only changes have `changeSequence`, `timestamp` and `streamPosition`. A task may
load a table again, into the same topics: the idea "Reload Kafka Target produces duplicates upon any
surrounding Kafka target error" in Qlik's community.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from changeledger.kernels.arrow import table_schema
from changeledger.kernels.loads import behind_changes
from changeledger.model import change

SCHEMA = table_schema(
    [
        (name, kind)
        for name, kind in change.LEDGER_COLUMNS
        if name in {"operation", "commit_lsn", "flags", "source_position"}
    ]
)


def row(operation: str, offset: int | None, partition: int | None = 0, **cells: Any) -> dict[str, Any]:
    return {
        "operation": operation,
        "commit_lsn": None if operation == "snapshot" else bytes(10),
        "flags": [],
        "source_position": {"source": "t", "partition": partition, "offset": offset, "row": None},
        **cells,
    }


def behind(*rows: dict[str, Any], is_streamed: bool = False) -> list[bool]:
    return behind_changes(pa.Table.from_pylist(list(rows), SCHEMA), is_streamed).tolist()


LOADED = row("snapshot", 1)


def test_a_first_load_comes_before_the_changes() -> None:
    assert behind(LOADED, row("update", 2), row("delete", 3)) == [False] * 3
    assert behind(row("update", 2), LOADED) == [False, False], "in whatever order they are stored"
    assert behind(LOADED) == [False]
    assert behind() == []


@pytest.mark.parametrize("operation", ["insert", "update", "delete", "truncate"])
def test_a_second_load_comes_behind_them(operation: str) -> None:
    assert behind(LOADED, row(operation, 2), row("snapshot", 3)) == [False, False, True]
    assert behind(row("snapshot", 3), is_streamed=True) == [True], "in a later window"


def test_partitions_say_nothing_of_each_other() -> None:
    assert behind(row("update", 2, 1), row("snapshot", 3, 0)) == [False, False]
    of_topic = {"source": "u", "partition": 0, "offset": 3, "row": None}
    assert behind(row("update", 2), row("snapshot", 3, source_position=of_topic)) == [False, False]


def test_rows_of_change_tables_have_no_offset() -> None:
    assert behind(row("update", None, None), row("snapshot", None, None)) == [False, False]
    assert behind(row("snapshot", None, None), is_streamed=True) == [True]


def test_rows_with_a_position_and_repairs_take_their_place() -> None:
    placed, repaired = row("snapshot", 3, commit_lsn=bytes(10)), row("snapshot", 3, flags=["repaired"])
    assert behind(row("update", 2), placed, repaired) == [False] * 3
    assert behind(placed, repaired, row("update", 4), is_streamed=True) == [False] * 3
