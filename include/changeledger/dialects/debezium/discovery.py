"""Discovers which topics have which tables, and how their columns are written.

`facts` picks messages out of each batch, `samples.merged` chooses among those of all batches, and `discover`
derives from them, on the driver, what routes and decodes the window's messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.config.feed import Feed
from changeledger.dialects.debezium import keys
from changeledger.dialects.debezium.avro import AvroSchema, avro_schema, by_schema, described
from changeledger.dialects.debezium.names import names_of, of_feed, own_database, table_called
from changeledger.dialects.debezium.plain import Alike
from changeledger.dialects.debezium.schema_block import (
    TableFacts,
    TableMessage,
    by_table,
    described_in_json,
    of_tables,
    table_facts,
)
from changeledger.dialects.debezium.unions import is_wrapped
from changeledger.dialects.debezium.warnings import of_altered, of_defaults, of_unnamed
from changeledger.dialects.kernel import EarlierWindows
from changeledger.dialects.messages import samples
from changeledger.dialects.messages.message_rows import Outcome
from changeledger.dialects.messages.samples import Sample
from changeledger.model.contract import Contract

# Schema blocks of a table that are looked at. A connector has one block at a time.
_MOST_BLOCKS = 20


@dataclass(frozen=True)
class TableRecords:
    """The messages of one table in one topic, which share one writer schema.

    * `writer_schema`: None if it is the table's contract itself.
    * `is_only_table`: whether the topic, or in Avro the schema in it, has no other table.
    * `unions`: whether the messages are Avro's own JSON.
    * `schema_id`: the Avro schema that the frames name.
    * `unframed`: whether messages of the topic without a frame, such as tombstones, belong here.
    """

    topic: str
    table: str
    source_table: str
    writer_schema: Contract | None
    is_only_table: bool
    unions: bool = False
    schema_id: str | None = None
    unframed: bool = True
    source_database: str | None = None


@dataclass(frozen=True)
class Discovery:
    """What the messages of a window are about. Each message is of one of `tables`, or of none."""

    tables: Sequence[TableRecords]
    # The database of all messages, or None if no message names one or `is_of_several`.
    database: str | None
    # Whether several databases may be the feed's.
    is_of_several: bool = False
    # The Avro schemas that the messages name, as JSON, by id.
    schemas: Mapping[str, str] = field(default_factory=dict)
    # Why messages cannot be read, by topic and either schema id or the table's name in the messages.
    faults: Mapping[tuple[str, str], Outcome] = field(default_factory=dict)
    # Always empty: each message carries its schema, or names one of a registry.
    new_writer_schemas: Mapping[str, Contract] = field(default_factory=dict)
    # Each table's name in the messages, by the feed's name; None if the messages may mean several tables.
    names: Mapping[str, str | None] = field(default_factory=dict)
    # Warnings about messages that can all be read.
    warnings: Sequence[str] = ()
    # Whether the feed has several tables. A topic not named after one may have others in another window.
    has_several: bool = False


def discover(messages: pa.RecordBatch, feed: Feed, known: EarlierWindows) -> Discovery:
    """Derives the discovery of a window from the facts of its messages."""
    contracts, schemas = known.contracts, known.avro_schemas
    messages = keys.readable(messages, schemas)
    chosen, topics = _chosen(messages.filter(pc.invert(messages.column("framed"))), feed)
    framed = messages.filter(messages.column("framed")).to_pylist()
    in_avro = by_schema([_sample(row) for row in framed], schemas)
    read = {place: avro_schema(some, feed, schemas) for place, some in in_avro.items()}
    names = names_of(topics, read.values(), feed, contracts)
    tables_of_topics = of_feed(topics, names, feed)
    unions = {message.sample.topic for message in chosen if is_wrapped(message.payload)}
    with_table = Counter(topic for topic, *_ in tables_of_topics)
    tables: list[TableRecords] = []
    faults: dict[tuple[str, str], Outcome] = {}
    samples_of = by_table(chosen)
    for topic, table, name, facts_of in tables_of_topics:
        columns = facts_of.read_by(contracts.get(table))
        fault = keys.fault(table, columns, samples_of[topic, name], feed, known)
        if fault is None:
            tables.append(TableRecords(topic, table, name, columns, with_table[topic] == 1, topic in unions))
        else:
            faults[topic, name] = fault
    for (topic, schema_id, shared_by), schema in read.items():
        name, own_table = schema.source_table, table_called(schema.source_table, names, feed)
        columns = TableFacts(schema.columns).read_by(contracts.get(own_table or ""))
        some = in_avro[topic, schema_id, shared_by]
        fault = schema.fault or keys.fault(own_table or "", columns, some, feed, known)
        if fault is not None:
            faults[topic, shared_by or schema_id] = fault
        elif own_table is not None:
            only = topic not in with_table
            tables.append(
                TableRecords(topic, own_table, name, columns, not shared_by, False, schema_id, only)
            )
            with_table[topic] += 1
    own = own_database(chosen, read.values(), feed, contracts)
    tables = [replace(records, source_database=own.named) for records in tables]
    warnings = [*_warnings(chosen, in_avro, read, schemas), *of_unnamed(read, schemas, feed)]
    several = len({config.table for config in feed.tables} | contracts.keys()) > 1
    return Discovery(tables, own.name, own.is_of_several, schemas, faults, {}, names, warnings, several)


def _warnings(
    in_json: Sequence[TableMessage],
    in_avro: Mapping[tuple[str, str, str], Sequence[Sample]],
    read: Mapping[tuple[str, str, str], AvroSchema],
    schemas: Mapping[str, str],
) -> list[str]:
    """Returns a warning for each table whose values may differ from the source's."""
    plain, framed = described_in_json(in_json), list(described(in_avro, read, schemas))
    return [*of_altered(plain), *of_altered(framed), *of_defaults(plain), *of_defaults(framed, in_avro=True)]


def _chosen(plain: pa.RecordBatch, feed: Feed) -> tuple[list[TableMessage], dict[str, dict[str, TableFacts]]]:
    """Returns the messages from which the tables' columns are taken, and what they say."""
    samples_at_ends, longer = _ends(plain)
    ends = of_tables(samples_at_ends, feed)
    # The ends come last: what a later message says holds.
    chosen = [*_between(plain, ends, longer, feed), *ends]
    topics = table_facts(chosen)
    shared = {topic for topic, tables in topics.items() if len(tables) > 1}
    if not shared:
        return chosen, topics
    chosen += of_tables(_of_each_table(_of_topics(plain, shared)), feed)
    return chosen, table_facts(chosen)


def _sample(row: Mapping[str, Any]) -> Sample:
    return Sample(row["topic"], row["key"], row["value"])


def _ends(plain: pa.RecordBatch) -> tuple[list[Sample], frozenset[str]]:
    """Returns the first and last messages of every partition, and the topics with others between them."""
    table = pa.Table.from_batches([plain])
    near = samples.at_ends(table)
    limits = samples.bounds(table).to_pylist()
    longer = {
        partition["topic"]
        for partition in limits
        if partition["offset_max"] - partition["offset_min"] >= 2 * samples.EACH_END
    }
    return [_sample(row) for row in plain.filter(pa.array(near)).to_pylist()], frozenset(longer)


def _between(
    plain: pa.RecordBatch, ends: Sequence[TableMessage], longer: Collection[str], feed: Feed
) -> list[TableMessage]:
    """Returns messages between the ends of their topics that have a table or schema block which no end has.

    In a topic whose ends have tables, another table counts only if the feed lists it: a name may be damaged.
    (`feed.table` is not enough, as the feed of the command `decode` may accept any name.)
    """
    topics: dict[str, list[TableMessage]] = {}
    for message in ends:
        topics.setdefault(message.sample.topic, []).append(message)
    names = {topic: {message.name for message in messages} for topic, messages in topics.items()}
    looked_at = {topic for topic in longer if len(names.get(topic, ())) < 2}
    texts = {topic: [message.sample.value or b"" for message in topics.get(topic, ())] for topic in looked_at}
    alike = {topic: Alike(of_topic) for topic, of_topic in texts.items()}
    rows = _of_topics(plain, looked_at)
    others = [row for row in rows if not alike[row["topic"]].holds(row["value"] or b"")]
    listed = {config.table.lower() for config in feed.tables}
    known = {topic: listed.union(map(str.lower, of_topic)) for topic, of_topic in names.items()}
    return [
        message
        for message in of_tables(_of_each_table(others), feed)
        if message.name.lower() in known.get(message.sample.topic, {message.name.lower()})
    ]


def _of_topics(plain: pa.RecordBatch, topics: Collection[str]) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = plain.filter(
        pc.is_in(plain.column("topic"), pa.array(sorted(topics), pa.string()))
    ).to_pylist()
    return rows


def _of_each_table(of_topics: Iterable[Mapping[str, Any]]) -> list[Sample]:
    """Returns the first and last message of each schema block of every table, in order."""
    groups: dict[tuple[str, str], dict[str, list[Mapping[str, Any]]]] = {}
    for row in of_topics:
        if row["group"] is not None:
            groups.setdefault((row["topic"], row["table"]), {}).setdefault(row["group"], []).append(row)
    kept: list[Mapping[str, Any]] = []
    for blocks in groups.values():
        # The rows come in the order of offset and partition.
        for rows in list(blocks.values())[:_MOST_BLOCKS]:
            kept += [rows[0], rows[-1]]
    kept.sort(key=lambda row: (row["topic"], row["offset"], row["partition"]))
    return [_sample(row) for row in kept]
