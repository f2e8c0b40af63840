"""The checks of a feed, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from changeledger.cli.check.connections import connection
from changeledger.cli.check.outcome import OK, Check, Checks, caught
from changeledger.config.connection import Connection
from changeledger.config.feed import Feed
from changeledger.config.files import named_feed
from changeledger.config.settings import Settings
from changeledger.config.sources import KafkaTopics
from changeledger.jars.fetching import SetupError
from changeledger.jars.java import java
from changeledger.model.errors import ConfigError
from changeledger.model.wording import counted
from changeledger.spark.session import jars


def checks(name: str) -> Iterator[Check]:
    """Each as soon as it is done; what needs something that has failed is left out."""
    feed = yield from caught("feed", _feed(name))
    if feed is None:
        return
    yield from caught("spark", _spark(feed))
    source = yield from caught("connection", _connection(feed))
    if source is None:
        return
    # Clients of Kafka and of databases take seconds to import.
    kind = "topics" if isinstance(feed.source, KafkaTopics) else "change_tables"
    yield from caught("source", import_module(f"changeledger.cli.check.{kind}").checks(feed, source))


def _feed(name: str) -> Checks[Feed]:
    feed = named_feed(Settings().feeds, name)
    # Raises where two tables would share one name in the lake.
    tables = counted(len(feed.names), "table")
    yield Check("feed", OK, f"{feed.feed} reads {tables} of {feed.database} by the dialect {feed.dialect}")
    return feed


def _spark(feed: Feed) -> Checks[None]:
    try:
        java()
    except SetupError as error:
        raise ConfigError(*error.parts) from None
    count = counted(len(jars(Settings())), "jar")
    spark = connection(feed.spark_connection)
    # Behind a semicolon an sc:// address may have a token.
    place = (spark.host or spark.conn_type).partition(";")[0]
    yield Check("spark", OK, f"Java and {count} are there; {feed.spark_connection} is {place}")


def _connection(feed: Feed) -> Checks[Connection]:
    source = connection(feed.connection)
    yield Check("connection", OK, f"{feed.connection} exists, of the type {source.conn_type}")
    return source
