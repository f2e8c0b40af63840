"""Compares the server's clock, as SYSDATETIMEOFFSET prints it, with the feed's `time_zone`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from sqlalchemy.dialects import mssql

from changeledger.dialects.sqlserver_cdc.reader import CaptureTables
from changeledger.dialects.sqlserver_cdc.server_clock import clock
from tests.dialects.test_change_table_readers import CDC, Memory, feed, lsn, sql

AT = datetime(2026, 8, 7, 12, tzinfo=UTC)


@pytest.fixture
def memory() -> Iterator[Memory]:
    """A server whose local time is two hours ahead of UTC.

    Its marks have the local time, as GETDATE() returns it.
    """
    memory = Memory(CDC)
    memory.session.execute("ALTER TABLE sys.columns ADD COLUMN collation_name")
    memory.session.execute("INSERT INTO cdc.change_tables VALUES (20, 10, 'dbo_orders', ?, NULL)", [lsn(1)])
    memory.session.execute(
        "INSERT INTO cdc.lsn_time_mapping VALUES (?, '2026-08-07T13:58:00.000', x'00')", [lsn(1)]
    )
    memory.session.create_function("sysdatetimeoffset", 0, lambda: "2026-08-07 14:00:00.1234567 +02:00")
    memory.session.create_function("db_name", 0, lambda: "shop")
    memory.session.create_function("databasepropertyex", 2, lambda *_: "READ_WRITE")
    yield memory
    memory.session.close()


def why(memory: Memory, zone: str) -> str | None:
    tables = [{"table": "dbo.orders"}]
    (state,) = CaptureTables(feed("sqlserver_cdc", tables=tables, time_zone=zone), memory).source_states(
        {}, AT
    )
    return state.why if state.is_odd else None


@pytest.mark.parametrize(
    ("zone", "offset"), [("UTC", "+00:00"), ("Europe/London", "+01:00"), ("America/New_York", "-04:00")]
)
def test_a_time_zone_that_is_not_the_servers(memory: Memory, zone: str, offset: str) -> None:
    said = why(memory, zone)
    assert said is not None
    assert said.startswith(
        f"the server's clock is at +02:00, and the feed's `time_zone: {zone}` at {offset}:"
    )


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Africa/Johannesburg"])
def test_a_time_zone_that_has_the_servers_offset(memory: Memory, zone: str) -> None:
    assert why(memory, zone) is None


def test_a_readable_secondary_has_the_times_of_its_primary(memory: Memory) -> None:
    """ "READ_ONLY" is the Updateability of a secondary (Microsoft's page "DATABASEPROPERTYEX")."""
    memory.session.create_function("sysdatetimeoffset", 0, lambda: "2026-08-07 12:00:00.1234567 +00:00")
    assert why(memory, "Europe/Berlin") is not None
    memory.session.create_function("databasepropertyex", 2, lambda *_: "READ_ONLY")
    assert why(memory, "Europe/Berlin") is None


def test_the_select() -> None:
    assert sql(clock(), mssql.dialect()) == (
        "SELECT CAST(sysdatetimeoffset() AS VARCHAR(40)) AS at, "
        "CAST(databasepropertyex(db_name(), 'Updateability') AS NVARCHAR(128)) AS updateability"
    )
