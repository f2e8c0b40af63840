"""Detects that a restored database assigns its positions again, and distinguishes similar cases.

SQL Server documents that two recovery paths of a database use one range of LSNs ("Recovery paths").
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from changeledger.dialects.interface import MessageDialect
from changeledger.dialects.registry import DIALECTS
from changeledger.kernels.arrow import table_schema
from changeledger.kernels.log_end import READ, LogEnd, furthest, of_another_log, of_changes
from changeledger.model import change

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMA = table_schema(
    [(name, kind) for name, kind in change.LEDGER_COLUMNS if name in {*READ, "source_position"}]
)


def lsn(number: int) -> bytes:
    return number.to_bytes(10, "big")


def row(number: int, minute: float, offset: int = 0, **cells: Any) -> dict[str, Any]:
    """An update whose commit has this LSN, and happened this many minutes after noon."""
    position = {"source": "shop.dbo.t", "partition": 0, "offset": offset, "row": None}
    return {
        "operation": "update",
        "commit_lsn": lsn(number),
        "change_lsn": lsn(number - 1),
        "committed_at": NOON + timedelta(minutes=minute),
        "flags": [],
        "source_position": {**position, **cells.pop("at", {})},
        **cells,
    }


def table(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), SCHEMA)


def strangers(*rows: dict[str, Any], end: LogEnd | None = None) -> list[bool]:
    return of_another_log(table(*rows), end).tolist()


END = LogEnd(lsn(50), NOON)


@pytest.mark.parametrize(
    ("number", "minute", "is_stranger"),
    [
        (51, 60, False),
        (50, 60, False),
        (49, 60, True),
        # A late change, or one from a replica whose clock is ahead.
        (49, -60, False),
        (49, 1, False),
        (49, 1.1, True),
    ],
)
def test_a_change_before_what_is_published(number: int, minute: float, is_stranger: bool) -> None:
    assert strangers(row(number, minute), end=END) == [is_stranger]
    assert strangers(row(number, minute)) == [False], "nothing was read before"


@pytest.mark.parametrize(
    "cells",
    [
        {"flags": ["clock_suspect"]},
        {"flags": ["repaired"]},
        {"commit_lsn": None},
        {"committed_at": None},
        # PostgreSQL's position is the change's own: transactions overlap.
        {"change_lsn": lsn(49)},
        # A row of an incremental snapshot has the position at which the connector resumed.
        {"operation": "snapshot"},
    ],
)
def test_what_says_nothing_of_the_log(cells: dict[str, Any]) -> None:
    assert strangers(row(49, 60, **cells), end=END) == [False]
    assert of_changes(table(row(49, 60, **cells), row(1, 0))) == LogEnd(lsn(1), NOON)


def test_a_snapshot_of_a_restored_database() -> None:
    """The snapshot shows an older log, but its time is not that of a commit."""
    snapshot = row(49, 60, operation="snapshot", change_lsn=None)
    assert strangers(snapshot, end=END) == [True]
    assert of_changes(table(snapshot)) is None


def test_a_snapshot_of_a_restored_database_east_of_utc() -> None:
    """Every snapshot row of such a server has a doubtful clock (debezium/debezium#3855)."""
    snapshot = row(49, 9 * 60, operation="snapshot", change_lsn=None, flags=["clock_suspect"])
    assert strangers(snapshot, end=END) == [True]
    assert of_changes(table(snapshot)) is None
    assert strangers({**snapshot, "flags": ["repaired"]}, end=END) == [False]


def test_a_change_without_an_lsn_of_its_own() -> None:
    """CES sends no change LSN."""
    assert strangers(row(49, 60, change_lsn=None), end=END) == [True]
    assert of_changes(table(row(49, 0, change_lsn=None))) == LogEnd(lsn(49), NOON)


def test_two_logs_in_one_window() -> None:
    """The first change after the restore reveals it. Later changes are compared with it, too."""
    rows = [row(5, 0, 1), row(9, 1, 2), row(7, 600, 3), row(8, 601, 4), row(10, 602, 5)]
    expected = [False, False, True, False, False]
    assert strangers(*rows) == expected
    assert strangers(*reversed(rows)) == expected[::-1], "in whatever order they are stored"


def test_partitions_say_nothing_of_each_other() -> None:
    rows = [row(9, 1, 2), row(7, 600, 4, at={"partition": 1}), row(7, 600, 5, at={"source": "other"})]
    assert strangers(*rows) == [False] * 3
    assert strangers(*rows, row(8, 0, 3)) == [False] * 4, "while a message comes again in the first"


def test_a_snapshot_is_no_evidence() -> None:
    """A connector whose position is before the snapshot's sends the changes committed meanwhile."""
    rows = [row(9, 0, 1, operation="snapshot", change_lsn=None), row(7, 600, 2)]
    assert strangers(*rows) == [False, False]


def test_messages_that_come_again_and_a_clock_that_goes_back() -> None:
    again = [row(5, 0, 1), row(9, 1, 2), row(6, 0.5, 3), row(9, 1, 4)]
    assert strangers(*again) == [False] * 4
    clock = [row(5, 60, 1), row(6, 0, 2), row(7, 1, 3)]
    assert strangers(*clock) == [False] * 3


def test_no_change() -> None:
    assert strangers() == []
    assert strangers(end=END) == []
    assert of_changes(table()) is None


def test_the_end_of_a_log() -> None:
    """The last position and the last time may belong to two changes, if a clock was set back."""
    rows = table(row(5, 60), row(300, 1), row(299, 2))
    assert of_changes(rows) == LogEnd(lsn(300), NOON + timedelta(hours=1))
    assert furthest([None, LogEnd(lsn(2), NOON), LogEnd(lsn(1), NOON + timedelta(1)), None]) == LogEnd(
        lsn(2), NOON + timedelta(1)
    )
    assert furthest([None]) is None


def test_an_end_as_json() -> None:
    end = LogEnd(lsn(2**70 + 3), NOON + timedelta(microseconds=1))
    assert LogEnd.of_json(end.as_json()) == end
    assert LogEnd.of_json(None) is None


def test_whose_positions_are_those_of_commits() -> None:
    """Debezium's `commit_lsn` and CES's `commitlsn` are commit positions, by the chapters on their events.

    Qlik's stream position is the change's own. Change tables are asked directly.
    """
    messages = [dialect for dialect in DIALECTS.values() if isinstance(dialect, MessageDialect)]
    assert {dialect.name for dialect in messages if dialect.has_commit_lsns} == {"ces", "debezium"}
