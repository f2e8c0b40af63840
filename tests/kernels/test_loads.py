"""Finds rows of a second full load, and changes that have lost their LSNs: they do not show in changed rows.

Qlik's page "Data messages": only changes have `changeSequence`, `timestamp` and `streamPosition`. A task may
load a table again, into the same topics: the idea "Reload Kafka Target produces duplicates upon any
surrounding Kafka target error" in Qlik's community. The page calls `streamPosition` the source's position,
so what it looks like depends on the source endpoint.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from changeledger.kernels.arrow import table_schema
from changeledger.kernels.loads import behind_changes, have_lost_lsns
from changeledger.model import change

SCHEMA = table_schema(
    [
        (name, kind)
        for name, kind in change.LEDGER_COLUMNS
        if name in {"operation", "commit_lsn", "committed_at", "flags", "source_position"}
    ]
)
AT = datetime(2026, 8, 7, 16, 25, tzinfo=UTC)


def row(operation: str, offset: int | None, partition: int | None = 0, **cells: Any) -> dict[str, Any]:
    return {
        "operation": operation,
        "commit_lsn": None if operation == "snapshot" else bytes(10),
        "committed_at": AT,
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


def lost(*rows: dict[str, Any], had_lsns: bool = False) -> list[bool]:
    return have_lost_lsns(pa.Table.from_pylist(list(rows), SCHEMA), had_lsns).tolist()


def without_lsn(operation: str, offset: int, partition: int = 0, **cells: Any) -> dict[str, Any]:
    return row(operation, offset, partition, commit_lsn=None, **cells)


@pytest.mark.parametrize("operation", ["insert", "update", "delete"])
def test_changes_that_lose_their_lsns(operation: str) -> None:
    assert lost(row("update", 1), without_lsn(operation, 2), row("update", 3)) == [False, True, False]
    assert lost(without_lsn(operation, 2), row("update", 1)) == [True, False], "in whatever order stored"
    assert lost(without_lsn(operation, 1), had_lsns=True) == [True], "in a later window"


def test_a_source_without_lsns_goes_on() -> None:
    assert lost(without_lsn("insert", 1), without_lsn("update", 2)) == [False, False]
    assert lost(row("snapshot", 1), without_lsn("update", 2)) == [False, False]
    assert lost() == []


def test_changes_that_gain_lsns_come_after_those_before() -> None:
    assert lost(without_lsn("insert", 1), row("update", 2)) == [False, False]
    assert lost(row("update", 2), had_lsns=True) == [False]


def test_new_topics_are_compared_by_commit_times() -> None:
    def in_new_topic(seconds: int, **cells: Any) -> dict[str, Any]:
        return without_lsn("update", 0, 7, committed_at=AT + timedelta(seconds=seconds), **cells)

    assert lost(row("update", 5), in_new_topic(61)) == [False, True]
    assert lost(row("update", 5), in_new_topic(60)) == [False, False], "clocks of two servers may differ"
    assert lost(in_new_topic(-3600), row("update", 5)) == [False, False]
    assert lost(row("update", 5, flags=["clock_suspect"]), in_new_topic(61)) == [False, False]
    assert lost(row("update", 5), in_new_topic(61, flags=["clock_suspect"])) == [False, False]


def test_rows_of_loads_and_repairs_lack_lsns_and_lose_none() -> None:
    loaded, repaired = row("snapshot", 2), without_lsn("update", 3, flags=["repaired"])
    assert lost(row("update", 1), loaded, repaired, had_lsns=True) == [False] * 3
