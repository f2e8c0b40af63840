"""The checks of a feed, in order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module

from changeledger.audit.remedies import require_own_names
from changeledger.cli.check.outcome import OK, Check, Checks, caught
from changeledger.config.connection import Connection, connection_variable
from changeledger.config.feed import Feed
from changeledger.config.files import named_feed
from changeledger.config.settings import Settings
from changeledger.config.sources import KafkaTopics
from changeledger.jars.fetching import SetupError
from changeledger.jars.java import java
from changeledger.model.errors import ConfigError
from changeledger.model.wording import counted
from changeledger.spark.session import jars

_PATIENCE_SECONDS = 120


def checks(name: str) -> Iterator[Check]:
    """Yields each check as soon as it is done. Leaves out checks that depend on a failed one."""
    feed = yield from caught("feed", _feed(name))
    if feed is None:
        return
    yield from caught("publish", _publishing(feed))
    yield from caught("spark", _spark(feed))
    source = yield from caught("connection", _connection(feed))
    if source is None:
        return
    # Imported here because clients of Kafka and of databases take seconds to import.
    kind = "topics" if isinstance(feed.source, KafkaTopics) else "change_tables"
    yield from caught("source", import_module(f"changeledger.cli.check.{kind}").checks(feed, source))


def _feed(name: str) -> Checks[Feed]:
    feed = named_feed(name)
    tables = counted(len(feed.tables), "table")
    yield Check("feed", OK, f"{feed.feed} reads {tables} of {feed.database} by the dialect {feed.dialect}")
    return feed


def _publishing(feed: Feed) -> Checks[None]:
    """Checks what is otherwise checked by the feed's first run: names of rules, and the secret of hashes."""
    for table in feed.tables:
        require_own_names(table)
    hashed = [
        table.table for table in feed.tables if any(rule.hash for rule in table.publish.columns.values())
    ]
    if hashed:
        # Imported here because SQLAlchemy takes long to import.
        from changeledger.stages.common.publishing import secret  # noqa: PLC0415

        secret(feed)
        yield Check("publish", OK, f"CHANGELEDGER_HASH_KEY is set, for columns of {', '.join(hashed)}")


def _spark(feed: Feed) -> Checks[None]:
    try:
        java()
    except SetupError as error:
        raise ConfigError(*error.parts) from None
    count = counted(len(jars(Settings())), "jar")
    spark = connection(feed.spark_connection)
    # An sc:// address may contain a token after a semicolon.
    place = (spark.host or spark.conn_type).partition(";")[0]
    yield Check("spark", OK, f"Java and {count} are installed; {feed.spark_connection} is {place}")


def _connection(feed: Feed) -> Checks[Connection]:
    source = connection(feed.connection)
    yield Check("connection", OK, f"{feed.connection} exists, of the type {source.conn_type}")
    return source


def connection(conn_id: str) -> Connection:
    """Returns a connection from the environment, as a job gets it, or else from Airflow.

    Airflow's connection is put into the environment. Raises ConfigError if neither has the connection.
    """
    variable = connection_variable(conn_id)
    if variable not in os.environ:
        stored = _of_airflow(conn_id)
        if stored is not None:
            os.environ[variable] = stored
    return Connection.named(conn_id)


def _of_airflow(conn_id: str) -> str | None:
    """Returns the connection's JSON from Airflow: from a secrets backend or its database.

    Returns None if Airflow does not find it, or is not set up.
    """
    command = [sys.executable, "-m", "airflow", "connections", "get", conn_id, "-o", "json"]
    try:
        answer = subprocess.run(  # noqa: S603 - Airflow's own command
            command, capture_output=True, text=True, check=False, timeout=_PATIENCE_SECONDS
        )
        (row,) = json.loads(answer.stdout[answer.stdout.index("[") :])
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    known = ("conn_type", "host", "port", "schema", "login", "password")
    return json.dumps({**{name: row.get(name) for name in known}, "extra": row.get("extra_dejson")})
