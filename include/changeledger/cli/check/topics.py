"""Checks a feed's topics: whether they exist, how long they keep messages, and how these are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa

from changeledger.cli.check import retention
from changeledger.cli.check.outcome import OK, WARNING, Check, Checks, caught, described, judged
from changeledger.cli.decode import reader
from changeledger.cli.decode.results import of_input
from changeledger.config.connection import Connection
from changeledger.config.feed import Feed
from changeledger.config.sources import KafkaTopics
from changeledger.dialects.interface import MessageDialect
from changeledger.dialects.messages import frames
from changeledger.dialects.registry import DIALECTS
from changeledger.kafka.schema_registry import PREFIX
from changeledger.kafka.topics import Kafka, Offsets
from changeledger.kernels.arrow import MESSAGE
from changeledger.kernels.rows import as_batch
from changeledger.model.wording import counted
from changeledger.stages.normalization.reading import Input

# The number of messages that are read at each end of a partition.
_EACH_END = 30
_PATIENCE_SECONDS = 20.0


def checks(feed: Feed, connection: Connection) -> Checks[None]:
    kafka = yield from caught("connection", _connected(feed, connection))
    if kafka is None:
        return
    topics = yield from caught("topics", _topics(feed, kafka))
    if topics is None:
        return
    yield from caught("retention", _retention(feed, kafka, topics))
    messages = yield from caught("grants", _readable(feed, kafka, topics))
    if messages is not None and messages.num_rows:
        yield from caught("records", _decoded(feed, connection, messages))


def _connected(feed: Feed, connection: Connection) -> Checks[Kafka]:
    kafka = Kafka(feed.connection, connection)
    kafka.topics(())
    yield Check("connection", OK, f"Kafka at {connection.extra['bootstrap.servers']} answers")
    return kafka


def _topics(feed: Feed, kafka: Kafka) -> Checks[list[str]]:
    source = feed.source
    assert isinstance(source, KafkaTopics), "config binds a dialect to its source"
    topics = kafka.topics_of(feed.feed, source.topics)
    for pattern in source.topics:
        if not kafka.topics([pattern]):
            yield Check(
                "topics", WARNING, f"no topic matches {pattern}",
                "correct `topics:`, or grant the login DESCRIBE on the topic; it may also be created later",
            )  # fmt: skip
    more = f" and {counted(len(topics) - 3, 'other')}" if len(topics) > 3 else ""
    yield Check("topics", OK, f"{counted(len(topics), 'topic')}: {', '.join(topics[:3])}{more}")
    return topics


def _retention(feed: Feed, kafka: Kafka, topics: Sequence[str]) -> Checks[None]:
    known = kafka.retention(topics)
    compacted = [topic for topic in topics if topic in known and known[topic].compacts]
    if compacted:
        yield Check(
            "retention", WARNING, f"{', '.join(compacted)} is compacted: older changes of a key are removed",
            "set cleanup.policy=delete: a change that is removed before it was read stops the run",
        )  # fmt: skip
    by_size = [topic for topic in topics if topic in known and known[topic].size is not None]
    if by_size:
        yield Check(
            "retention", WARNING, f"{', '.join(by_size)} removes messages by size (retention.bytes), too",
            "raise it, so that it holds all messages that arrive between two runs",
        )  # fmt: skip
    by_age = [(known[topic].seconds, topic) for topic in topics if topic in known]
    limited = [(seconds, topic) for seconds, topic in by_age if seconds is not None]
    if limited:
        seconds, topic = min(limited)
        yield retention.kept(topic, timedelta(seconds=seconds), feed)
    elif known:
        yield Check("retention", OK, "the topics keep messages for ever")
    if len(known) < len(topics):
        yield Check(
            "retention", WARNING, "the login may not ask how long topics keep messages (DESCRIBE_CONFIGS)",
            "grant it: a topic that may be compacted stops the run at offsets without a record",
        )  # fmt: skip


def _readable(feed: Feed, kafka: Kafka, topics: Sequence[str]) -> Checks[pa.RecordBatch]:
    """Reads some messages at both ends of each partition."""
    first, last = kafka.earliest(topics), kafka.latest(topics)
    number = sum(last[topic][p] - first[topic][p] for topic in last for p in last[topic])
    if not number:
        yield Check(
            "grants", WARNING, "the topics are empty, so it is not known whether the login may READ them",
            f"let {feed.dialect} write a record, and check again",
        )  # fmt: skip
        return _batch([])
    heads = {t: {p: min(at + _EACH_END, last[t][p]) for p, at in ps.items()} for t, ps in first.items()}
    tails = {t: {p: max(heads[t][p], end - _EACH_END) for p, end in ps.items()} for t, ps in last.items()}
    batches = [*_read(kafka, first, heads), *_read(kafka, tails, last)]
    yield Check("grants", OK, f"the login may read; the topics have {counted(number, 'offset')}")
    return _batch(batches)


def _read(kafka: Kafka, start: Offsets, end: Offsets) -> list[pa.RecordBatch]:
    scan = replace(kafka.messages(start, end), seconds=_PATIENCE_SECONDS)
    return [batch for part in scan.parts for batch in scan.rows(part)]


def _batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return as_batch(pa.Table.from_batches(batches, MESSAGE))


def _decoded(feed: Feed, connection: Connection, messages: pa.RecordBatch) -> Checks[None]:
    dialect = DIALECTS[feed.dialect]
    assert isinstance(dialect, MessageDialect), "config binds a dialect to its source"
    yield _format(connection, messages)
    warnings: list[str] = []
    inputs = reader.of_messages(dialect, feed, messages, reader.schemas_of(feed), warnings.append)
    for warning in warnings:
        yield Check("records", WARNING, warning, "see docs/feeds.md")
    yield from _tables(feed, inputs)
    places = messages.select(["topic", "partition", "offset"]).to_pylist()
    numbers = {tuple(place.values()): n for n, place in enumerate(places, 1)}
    results = [
        result
        for decoded in inputs
        for result in of_input(feed, decoded, lambda at: numbers[at["source"], at["partition"], at["offset"]])
    ]
    yield from judged(feed, sorted(results, key=lambda result: result["record"]))


def _format(connection: Connection, messages: pa.RecordBatch) -> Check:
    """Returns the check of the format: JSON, or Avro of a registry."""
    named = messages.select(["key", "value", "headers"]).to_pylist()
    ids = frames.schema_ids((row["key"], row["value"], row["headers"] or ()) for row in named)
    if not ids:
        return Check("format", OK, "the messages name no schema of a registry, so they are read as JSON")
    names = f"the messages name {counted(len(ids), 'schema')} of a registry ({', '.join(ids[:5])})"
    if connection.extra.get(f"{PREFIX}url"):
        return Check("format", OK, names)
    return Check(
        "format", WARNING, f"{names}, but the connection names no registry",
        f"add {PREFIX}url to the extra of the connection",
    )  # fmt: skip


def _tables(feed: Feed, inputs: Sequence[Input]) -> Checks[None]:
    known = {decoded.table: decoded.contract for decoded in inputs if decoded.contract is not None}
    for config in feed.tables:
        contract = known.get(config.table)
        if contract is not None:
            yield from described(config, {"": contract})
        else:
            yield Check(
                f"table {config.table}", WARNING, "none of the messages read is of this table",
                "check that the table is captured and its topic is in `topics:`; change a row of it, and "
                "check again",
            )  # fmt: skip
