"""Which database the messages of a feed's tables are of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from changeledger.config.feed import Feed
from changeledger.config.sources import DebeziumSource
from changeledger.dialects.debezium.framed import AvroSchema
from changeledger.dialects.debezium.schema_block import TableMessage
from changeledger.model.contract import Contract
from changeledger.model.source_names import database_meant


def own_database(
    messages: Iterable[TableMessage],
    in_avro: Iterable[AvroSchema],
    feed: Feed,
    contracts: Mapping[str, Contract],
) -> tuple[str | None, bool]:
    """The feed's database, and whether several may be; None and false: no message names one."""
    assert isinstance(feed.source, DebeziumSource), "config binds a dialect to its source"
    named = databases_of(messages)
    named.update(writer.database for writer in in_avro if writer.database is not None)
    so_far = (contract.source_database for contract in contracts.values())
    database = database_meant(feed.source.database_name, feed.database, so_far, named)
    return database, database is None and bool(named)


def databases_of(messages: Iterable[TableMessage]) -> Counter[str]:
    """The databases that messages name, and how many name each."""
    names = (of_table.payload["source"].get("db") for of_table in messages)
    return Counter(name for name in names if isinstance(name, str))
