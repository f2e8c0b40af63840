"""Determines which of the tables and databases named in messages are the feed's.

Of tables whose names differ only in case, at most one is the feed's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from changeledger.config.feed import Feed
from changeledger.config.sources import DebeziumSource
from changeledger.dialects.debezium.avro import AvroSchema
from changeledger.dialects.debezium.schema_block import TableFacts, TableMessage
from changeledger.dialects.messages.problems import Problem
from changeledger.model.column_names import shown
from changeledger.model.contract import Contract
from changeledger.model.source_names import database_meant, meant

# Characters for which the connector writes an underscore in a topic's name.
_NOT_IN_TOPICS = re.compile(r"[^A-Za-z0-9._-]")
# By topic, and by the table's name in its messages.
Tables = Mapping[str, Mapping[str, TableFacts]]


def names_of(
    topics: Tables, in_avro: Iterable[AvroSchema], feed: Feed, contracts: Mapping[str, Contract]
) -> dict[str, str | None]:
    """Maps the feed's name of each table to its name in messages, or to None if they may mean several."""
    written: dict[str, dict[str, None]] = {}
    json_names = (name for names in topics.values() for name in names)
    for name in (*json_names, *(schema.source_table for schema in in_avro)):
        config = feed.table(name)
        if config is not None:
            written.setdefault(config.table, {})[name] = None
    known = {table: contracts[table].source_table for table in written.keys() & contracts.keys()}
    return {table: meant(table, known.get(table), names) for table, names in written.items()}


def table_called(name: str, names: Mapping[str, str | None], feed: Feed) -> str | None:
    """Returns the feed's name of a table that messages call `name`, or None if it is not the feed's."""
    config = feed.table(name)
    return config.table if config is not None and names.get(config.table) == name else None


def of_feed(
    topics: Tables, names: Mapping[str, str | None], feed: Feed
) -> list[tuple[str, str, str, TableFacts]]:
    """Returns the feed's tables: topic, the feed's name, the messages' name, and what the messages say."""
    return [
        (topic, table, name, facts)
        for topic, tables in topics.items()
        for name, facts in tables.items()
        if (table := table_called(name, names, feed)) is not None
    ]


def mismatch(named: str, table: str) -> Problem:
    """Returns the problem of a message of the table `named` in the topic of `table`."""
    what = f"{shown([named])} in the topic of {table}"
    if sharing(named, (table,)) is None:
        return Problem("table_mismatch", what)
    return Problem(
        "table_mismatch",
        f"{what}: the connector writes an underscore for each character that a topic's name cannot "
        "have. If both names mean one table, name it in `tables:` as the source does; if both tables "
        "exist, list both",
    )


@lru_cache(maxsize=4096)
def sharing(named: str, tables: tuple[str, ...]) -> str | None:
    """Returns another of these tables whose topics have the same name as those of `named`, or None.

    An example is `foo@bar` and `foo$bar` (debezium/debezium#618).
    """
    written = _in_topics(named)
    alike = (table for table in tables if _in_topics(table) == written and table.lower() != named.lower())
    return next(alike, None)


def _in_topics(table: str) -> str:
    return _NOT_IN_TOPICS.sub("_", table).lower()


def is_called(topic: str, table: str) -> bool:
    """Returns whether the topic's name ends with the table's, as the connector writes it in topics."""
    written = _in_topics(table)
    called = f".{topic.lower()}"
    return any(called.endswith(f".{part}") for part in (written, written.partition(".")[2]))


class OwnDatabase(NamedTuple):
    """The name of the feed's database.

    `name` is None if several may be the feed's (`is_of_several`), or no message names one. `named` is the
    same name if a message has it, else None: then the feed may state a wrong one.
    """

    name: str | None
    is_of_several: bool
    named: str | None


def own_database(
    messages: Iterable[TableMessage],
    in_avro: Iterable[AvroSchema],
    feed: Feed,
    contracts: Mapping[str, Contract],
) -> OwnDatabase:
    """Returns the feed's database, by its messages, its settings and the contracts read so far."""
    assert isinstance(feed.source, DebeziumSource), "config binds a dialect to its source"
    written = (of_table.payload["source"].get("db") for of_table in messages)
    named = Counter(name for name in written if isinstance(name, str))
    named.update(writer.database for writer in in_avro if writer.database is not None)
    so_far = (contract.source_database for contract in contracts.values())
    database = database_meant(feed.source.database_name, feed.database, so_far, named)
    return OwnDatabase(database, database is None and bool(named), database if database in named else None)
