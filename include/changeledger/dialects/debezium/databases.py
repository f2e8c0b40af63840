"""Which database the messages of a feed's tables are of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from changeledger.config.feed import Feed
from changeledger.config.sources import DebeziumSource
from changeledger.dialects.debezium.framed import AvroSchema
from changeledger.dialects.debezium.plain import json_object, payload_of
from changeledger.dialects.debezium.schema_block import table_of
from changeledger.dialects.messages.samples import Sample
from changeledger.model.contract import Contract
from changeledger.model.source_names import database_meant


def own_database(
    samples: Sequence[Sample],
    in_avro: Iterable[AvroSchema],
    feed: Feed,
    contracts: Mapping[str, Contract],
) -> tuple[str | None, bool]:
    """The feed's database, and whether several may be; None and false: no message names one."""
    assert isinstance(feed.source, DebeziumSource), "config binds a dialect to its source"
    named = databases_of(samples, feed)
    named.update(writer.database for writer in in_avro if writer.database is not None)
    so_far = (contract.source_database for contract in contracts.values())
    database = database_meant(feed.source.database_name, feed.database, so_far, named)
    return database, database is None and bool(named)


def databases_of(samples: Sequence[Sample], feed: Feed) -> Counter[str]:
    """The databases of the samples' tables, and how many samples name each."""
    payloads = ((payload_of(json_object(sample.value)), sample.topic) for sample in samples)
    sources = (payload["source"] for payload, topic in payloads if table_of(payload, topic, feed) is not None)
    return Counter(name for source in sources if isinstance(name := source.get("db"), str))
