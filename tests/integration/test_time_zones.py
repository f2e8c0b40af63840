"""What is read does not depend on the time zone of the reading machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import psycopg
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from sqlalchemy import column, select, table

from changeledger.config.connection import Connection
from changeledger.config.settings import Settings
from changeledger.control import AskedReset, ControlStore
from changeledger.dialects.tables.sql import as_read
from changeledger.jdbc.database import JdbcDatabase
from changeledger.model.errors import ConfigError
from changeledger.model.sql_type import SqlType
from sourcelab import sqlserver_cdc
from sourcelab.log import simulate
from sourcelab.postgres import plain_url
from sourcelab.services import Postgres
from tests.integration.line import cdc_feed, lake_name, run, window

pytestmark = pytest.mark.integration


@contextmanager
def jvm_in(spark: SparkSession, zone: str) -> Iterator[None]:
    zones = spark.sparkContext._jvm.java.util.TimeZone
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone(zone))
    try:
        yield
    finally:
        zones.setDefault(before)


def test_a_moment_in_a_target_on_postgresql_is_read_in_utc(spark: SparkSession, postgres: Postgres) -> None:
    """PostgreSQL prints moments in the session's zone, which its driver sets to that of the JVM."""
    with psycopg.connect(plain_url(postgres.url), autocommit=True) as session:
        session.execute("CREATE TABLE moments (at timestamptz(6))")
        session.execute("INSERT INTO moments VALUES ('2026-08-07 16:25:06.863899+01:00')")
        target = JdbcDatabase("target", Connection.model_validate(postgres.connection))
        at = as_read(column("at"), SqlType.parse("datetimeoffset(6)"))
        query = select(at.label("at")).select_from(table("moments"))
        with jvm_in(spark, "Asia/Kolkata"):
            rows = [*target.rows(query), *target.read(spark, [query]).collect()]
    assert [row["at"] for row in rows] == ["2026-08-07 15:25:06.863899+00"] * 2


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Pacific/Apia"])
def test_a_time_without_a_zone_is_read_as_it_is(spark: SparkSession, postgres: Postgres, zone: str) -> None:
    """Times are not read in the JVM's zone, whose clock skips an hour or day, and whose calendar ten days."""
    times = (
        "2026-03-29 02:30:00.863899", "2011-12-30 12:00:00", "1582-10-10 23:59:59", "0001-01-01 00:00:00",
        "9999-12-31 23:59:59.999999", "2026-10-25 02:30:00",
    )  # fmt: skip
    with psycopg.connect(plain_url(postgres.url), autocommit=True) as session:
        session.execute('CREATE TABLE times (id int, "at `x" timestamp(6), day date, zoned timestamptz)')
        for number, at in enumerate(times):
            session.execute(
                "INSERT INTO times VALUES (%s, %s, %s, %s)", (number, at, at, "2026-03-29 01:30+00")
            )
        target = JdbcDatabase("target", Connection.model_validate(postgres.connection))
        every = select(*map(column, ("id", "at `x", "day", "zoned"))).select_from(table("times"))
        with jvm_in(spark, zone):
            frame = target.read(spark, [every.where(column("id") <= 2), every.where(column("id") > 2)])
            zoned = F.date_format("zoned", "HH:mm").alias("zoned")
            rows = {row["id"]: row for row in frame.select("id", "`at ``x`", "day", zoned).collect()}
    assert dict(frame.dtypes) == {
        "id": "int", "at `x": "timestamp_ntz", "day": "date", "zoned": "timestamp"
    }  # fmt: skip
    assert [rows[n]["at `x"] for n in range(len(times))] == [datetime.fromisoformat(at) for at in times]
    assert [rows[n]["day"] for n in range(len(times))] == [date.fromisoformat(at[:10]) for at in times]
    assert {row["zoned"] for row in rows.values()} == {"01:30"}


@pytest.mark.long
def test_commits_in_an_hour_that_the_servers_clock_shows_twice(
    spark: SparkSession, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit every ten minutes around the end of summer time in Berlin; windows end in both hours."""
    log, change = simulate(5, 24), datetime(2026, 10, 25, 1, tzinfo=UTC)
    sqlserver_cdc.load(postgres.url, log)
    true = {t.commit_lsn: change + timedelta(minutes=10 * (n - 12)) for n, t in enumerate(log.transactions)}
    with psycopg.connect(plain_url(postgres.url), autocommit=True) as session:
        session.execute(r"DELETE FROM cdc.lsn_time_mapping WHERE tran_id = '\x00'")
        for lsn, at in true.items():
            local = at.astimezone(ZoneInfo("Europe/Berlin")).replace(tzinfo=None)
            session.execute(
                "UPDATE cdc.lsn_time_mapping SET tran_end_time = %s WHERE start_lsn = %s", (local, lsn)
            )
    tables = [{"table": "dbo.customers"}]
    feed = cdc_feed("twice_an_hour", postgres, monkeypatch, tables=tables, time_zone="Europe/Berlin")
    bounds = [change + timedelta(minutes=30 * half) for half in (-4, -1, 0, 1, 4)]
    for start, end in pairwise(bounds):
        run(spark, feed, window(end, start))
    changes = spark.table(lake_name(feed, "dbo.customers", "_changes"))
    at_seconds = F.unix_seconds("committed_at").alias("at")
    rows = changes.select("commit_lsn", "flags", at_seconds, "window_id").collect()
    assert {bytes(row["commit_lsn"]) for row in rows} >= {
        t.commit_lsn for t in log.transactions if any(c.table.full_name == "dbo.customers" for c in t.changes)
    }
    for row in rows:
        at = datetime.fromtimestamp(row["at"], UTC)
        assert at == true[bytes(row["commit_lsn"])]
        assert "clock_suspect" not in (row["flags"] or [])
        start = max(bound for bound in bounds if bound <= at)
        assert row["window_id"].startswith(f"{start:%Y%m%dT%H%M}")


@pytest.mark.long
def test_a_zone_that_was_stated_wrongly_is_corrected_by_a_reset(
    spark: SparkSession, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the reset, the next commits would be an hour before the published ones."""
    log, tables = simulate(5, 24), [{"table": "dbo.customers"}]
    sqlserver_cdc.load(postgres.url, log, to_tx=12)
    feed = cdc_feed("zone_corrected", postgres, monkeypatch, tables=tables)
    first = window()
    run(spark, feed, first)
    sqlserver_cdc.append(postgres.url, log, 12, 18)
    corrected = cdc_feed("zone_corrected", postgres, monkeypatch, tables=tables, time_zone="Etc/GMT-1")
    with pytest.raises(ConfigError, match="were read by `time_zone: UTC`"):
        run(spark, corrected, window(start=first.end))
    ControlStore(Settings().control_url).resets.ask(feed.feed, AskedReset("a wrong zone", "a tester"))
    again = window(start=first.end)
    run(spark, corrected, again)
    sqlserver_cdc.append(postgres.url, log, 18, len(log.transactions))
    run(spark, corrected, window(start=again.end))
    true = {t.commit_lsn: t.commit_time.replace(tzinfo=UTC) - timedelta(hours=1) for t in log.transactions}
    changes = spark.table(lake_name(feed, "dbo.customers", "_changes"))
    for row in changes.select("commit_lsn", F.unix_seconds("committed_at").alias("at")).collect():
        published = datetime.fromtimestamp(row["at"], UTC)
        assert abs(published - true[bytes(row["commit_lsn"])]) <= timedelta(seconds=1)
