"""The control store works the same whatever defaults the PostgreSQL database or role has."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from time import sleep

import psycopg
import pytest
from psycopg import sql

from changeledger.control import ControlStore, database, upgrade
from changeledger.control.base import database_now
from sourcelab.postgres import plain_url
from sourcelab.services import Postgres


def with_default(server: Postgres, setting: str, value: str) -> str:
    """Sets a default of the database's sessions, and returns the store's URL."""
    with psycopg.connect(plain_url(server.url), autocommit=True) as session:
        place, name = sql.Identifier(server.database), sql.Identifier(setting)
        session.execute(sql.SQL("ALTER DATABASE {} SET {} = {}").format(place, name, sql.Literal(value)))
    return server.url


@pytest.mark.parametrize("style", ["German", "SQL, DMY", "Postgres, MDY"])
def test_times_are_read_in_any_style_and_zone(new_database: Callable[[], Postgres], style: str) -> None:
    """PostgreSQL's manual, 8.5.2: these styles print the day before the month, or names of zones."""
    server = new_database()
    with_default(server, "TimeZone", "America/St_Johns")
    store = ControlStore(with_default(server, "DateStyle", style))
    store.leases.acquire("shop", "a run", 900)
    with store.leases._transaction() as session:
        now = database_now(session)
    assert abs(datetime.now(UTC) - now) < timedelta(minutes=1)


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_waiting_process_sees_the_schema_that_another_has_created(
    new_database: Callable[[], Postgres], level: str
) -> None:
    """At these levels a transaction keeps the state of its first statement, which is the wait itself."""
    url = with_default(new_database(), "default_transaction_isolation", level)
    with ThreadPoolExecutor(2) as pool, psycopg.connect(plain_url(url), autocommit=True) as session:
        session.execute("SELECT pg_advisory_lock(%s)", [database._MIGRATION_LOCK])
        both = [pool.submit(upgrade, url) for _ in range(2)]
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        while session.execute(waiting).fetchone() != (2,):
            sleep(0.05)
        session.execute("SELECT pg_advisory_unlock(%s)", [database._MIGRATION_LOCK])
        for started in both:
            started.result(timeout=60)
