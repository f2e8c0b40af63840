"""A source whose clock is put back: bounds of windows, and the pass of each row, queried on SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy.dialects import mssql, postgresql

from changeledger.dialects.sqlserver_cdc.clock import FallBack, RepeatedHour
from changeledger.dialects.sqlserver_cdc.reader import CaptureTables
from changeledger.dialects.sqlserver_cdc.time_mapping import TimeMapping
from changeledger.model.window import Window
from tests.dialects.test_change_table_readers import CDC, Memory, feed, lsn, sql, text

ZONES = {
    "Europe/Berlin": datetime(2026, 10, 25, 1, tzinfo=UTC),
    "Australia/Lord_Howe": datetime(2026, 4, 4, 15, tzinfo=UTC),
}
EVERY = timedelta(minutes=6)


@pytest.fixture(params=ZONES)
def source(request: pytest.FixtureRequest) -> Iterator[tuple[Memory, str, datetime]]:
    """Commits every six minutes, from two hours before the clock is put back.

    LSN 21 is the first one after.
    """
    memory, change = Memory(CDC), ZONES[request.param]
    memory.session.execute("INSERT INTO cdc.change_tables VALUES (20, 10, 'dbo_orders', ?, NULL)", [lsn(1)])
    clock = ZoneInfo(request.param)
    for n in range(1, 41):
        local = (change + EVERY * (n - 21)).astimezone(clock).strftime("%Y-%m-%dT%H:%M:%S.000")
        memory.session.execute("INSERT INTO cdc.lsn_time_mapping VALUES (?, ?, x'1A00')", [lsn(n), local])
        memory.session.execute("INSERT INTO cdc.dbo_orders_CT VALUES (?, 2, ?, 0)", [lsn(n), n])
    yield memory, request.param, change
    memory.session.close()


def reader(memory: Memory, zone: str, **source: Any) -> CaptureTables:
    return CaptureTables(
        feed("sqlserver_cdc", tables=[{"table": "dbo.orders"}], time_zone=zone, source=source), memory
    )


@pytest.mark.parametrize("minutes", [15, 30, 60])
def test_windows_across_the_change_read_each_commit_in_its_own_window(
    source: tuple[Memory, str, datetime], minutes: int, caplog: pytest.LogCaptureFixture
) -> None:
    memory, zone, change = source
    position: dict[str, str] = {}
    start = change - timedelta(hours=2)
    while start < change + timedelta(hours=2):
        over = Window(start=start, end=start + timedelta(minutes=minutes))
        first, last = reader(memory, zone).bounds(over, position)
        rows = [
            row
            for table in reader(memory, zone).tables
            for query in reader(memory, zone).queries(table, first.get("dbo.orders"), last["dbo.orders"])
            for row in memory.rows(query)
        ]
        expected = [n for n in range(1, 41) if over.start <= change + EVERY * (n - 21) < over.end]
        assert [row["id"] for row in rows] == expected
        for row in rows:
            moment = change + EVERY * (row["id"] - 21)
            is_repeated = abs(moment - change) <= timedelta(hours=1 if "Berlin" in zone else 0.5)
            in_hour = is_repeated and moment != change + timedelta(hours=1 if "Berlin" in zone else 0.5)
            assert row.get("__$commit_fold") == (int(moment >= change) if in_hour else None), row
        position, start = dict(last), over.end
    assert not caplog.messages, "the capture job did not stand still"


@pytest.mark.parametrize("captured", range(11, 41))
def test_a_window_is_read_alike_however_far_the_log_is_captured(
    source: tuple[Memory, str, datetime], captured: int
) -> None:
    memory, zone, change = source
    at = Window(start=change - timedelta(hours=2), end=change + timedelta(hours=2))
    whole = _folds(memory, zone, at)
    memory.session.execute("DELETE FROM cdc.lsn_time_mapping WHERE start_lsn > ?", [lsn(captured)])
    part = _folds(memory, zone, at)
    assert part == {n: fold for n, fold in whole.items() if n <= captured}


def _folds(memory: Memory, zone: str, at: Window) -> dict[int, int | None]:
    asked = reader(memory, zone, partition_rows=7)
    _, last = asked.bounds(at, {})
    queries = asked.queries(asked.tables[0], None, last["dbo.orders"])
    return {row["id"]: row.get("__$commit_fold") for query in queries for row in memory.rows(query)}


def test_a_second_pass_without_what_was_before_it_is_not_known() -> None:
    """The first pass was cleaned up, so no time falls back: 02:06 may be in either pass."""
    memory = Memory(CDC)
    memory.session.execute("INSERT INTO cdc.change_tables VALUES (20, 10, 'dbo_orders', ?, NULL)", [lsn(1)])
    for n, clock in enumerate(("02:06", "02:12", "03:00"), 1):
        at = f"2026-10-25T{clock}:00.000"
        memory.session.execute("INSERT INTO cdc.lsn_time_mapping VALUES (?, ?, x'1A00')", [lsn(n), at])
        memory.session.execute("INSERT INTO cdc.dbo_orders_CT VALUES (?, 2, ?, 0)", [lsn(n), n])
    whole = Window(start=datetime(2026, 10, 24, tzinfo=UTC), end=datetime(2026, 10, 26, tzinfo=UTC))
    asked = reader(memory, "Europe/Berlin")
    _, last = asked.bounds(whole, {})
    (query,) = asked.queries(asked.tables[0], None, last["dbo.orders"])
    assert [row["__$commit_fold"] for row in memory.rows(query)] == [None] * 3
    # Bounds of windows assign these commits to the first pass, too.
    hour = Window(start=datetime(2026, 10, 25, 0, tzinfo=UTC), end=datetime(2026, 10, 25, 1, tzinfo=UTC))
    assert asked.bounds(hour, {})[1] == {"dbo.orders": text(2)}


def test_how_far_a_source_is_captured_in_the_second_pass(source: tuple[Memory, str, datetime]) -> None:
    memory, zone, change = source
    memory.session.execute("DELETE FROM cdc.lsn_time_mapping WHERE start_lsn > ?", [lsn(23)])
    (state,) = reader(memory, zone).source_states({}, change)
    assert (state.end, state.newest) == (text(23), change + 2 * EVERY)


def test_a_source_that_was_not_put_back_of_late_is_asked_no_more() -> None:
    memory = Memory(CDC)
    memory.session.execute("INSERT INTO cdc.change_tables VALUES (20, 10, 'dbo_orders', ?, NULL)", [lsn(1)])
    memory.session.execute(
        "INSERT INTO cdc.lsn_time_mapping VALUES (?, '2026-08-07T10:00:00.000', x'1A00')", [lsn(1)]
    )
    asked = reader(memory, "Europe/Berlin")
    (query,) = asked.queries(asked.tables[0], None, text(1))
    assert "fold" not in str(query)


HOUR = RepeatedHour(datetime(2026, 10, 25, 2), datetime(2026, 10, 25, 3))


@pytest.mark.parametrize(
    ("dialect", "minute", "literal"),
    [
        (mssql.dialect(), "DATEADD(minute, DATEDIFF(minute, 0, {t}), 0)", "CAST('{at}' AS DATETIME)"),
        (postgresql.dialect(), "date_trunc('minute', {t})", "CAST('{at}' AS TIMESTAMP WITHOUT TIME ZONE)"),
    ],
    ids=["mssql", "postgresql"],
)
def test_the_selects_of_an_hour_in_each_database(dialect: Any, minute: str, literal: str) -> None:
    mapping, time = TimeMapping("cdc"), "cdc.lsn_time_mapping.tran_end_time"
    start, low, end = (literal.format(at=f"2026-10-25T{at}:00.000") for at in ("02:00", "01:50", "03:00"))
    of_time = minute.format(t=time)
    assert sql(mapping.around(HOUR), dialect) == (
        "SELECT commits.lsn, commits.minute FROM (SELECT cdc.lsn_time_mapping.start_lsn AS lsn, "
        f"{of_time} AS minute, lag({of_time}) OVER (ORDER BY cdc.lsn_time_mapping.start_lsn) AS before "
        f"FROM cdc.lsn_time_mapping WHERE {time} >= {low} AND {time} < {end}) AS commits "
        "WHERE commits.before IS NULL OR commits.minute != commits.before"
    )
    assert sql(mapping.span(), dialect) == (
        f"SELECT (SELECT min({time}) AS min_1 FROM cdc.lsn_time_mapping) AS first, "
        f"(SELECT max({time}) AS max_1 FROM cdc.lsn_time_mapping) AS last"
    )
    put_back = FallBack(HOUR, lsn(7), 1)
    seventh = "0x00000000000000000007" if dialect.name == "mssql" else f"decode('{lsn(7).hex()}', 'hex')"
    half_past = datetime(2026, 10, 25, 2, 30)
    before = f"{time} < {literal.format(at='2026-10-25T02:30:00.000')}"
    is_first = f"cdc.lsn_time_mapping.start_lsn < {seventh}"
    highest = "SELECT max(cdc.lsn_time_mapping.start_lsn) AS lsn FROM cdc.lsn_time_mapping WHERE "
    assert sql(mapping.highest_lsn(half_past, put_back), dialect) == f"{highest}{before} AND {is_first}"
    assert sql(mapping.highest_lsn(half_past.replace(fold=1), put_back), dialect) == (
        f"{highest}{before} OR {time} < {end} AND {is_first}"
    )
    assert start in sql(mapping.around(RepeatedHour(HOUR.start + timedelta(minutes=10), HOUR.end)), dialect)
