"""Writes messages of Kafka topics into `lake.<feed>.raw`, one partition per window and topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from changeledger.config.connection import Connection
from changeledger.config.sources import KafkaTopics
from changeledger.control import WindowRow
from changeledger.dialects.messages.frames import AVRO_WITH_ID, CONTENT_TYPE, ID_HEADERS
from changeledger.kafka.gaps import check_continuity, check_named, check_retention
from changeledger.kafka.messages import RAW, of_window
from changeledger.kafka.schema_registry import SchemaRegistry
from changeledger.kafka.topics import Kafka, Offsets
from changeledger.kernels.avro import FRAME_BYTES, schema_ids
from changeledger.lake import catalog, new_tables, writes
from changeledger.model import change
from changeledger.model.errors import SourceUnavailable
from changeledger.model.window import promised
from changeledger.model.wording import counted
from changeledger.stages.common import input_records
from changeledger.stages.common.context import StageContext, log
from changeledger.stages.extraction import completeness, joined, resetting, same_sources

# Most distinct Avro frame headers looked at per window and side; a registry gets fewer unknown ids.
_MOST_IDS = 10_000


def extract_messages(ctx: StageContext) -> None:
    feed, source = ctx.feed, ctx.feed.source
    assert isinstance(source, KafkaTopics), "config binds a dialect to its source"
    kafka = Kafka(feed.connection, Connection.named(feed.connection))
    stored = ctx.open(lambda: _resolve(ctx, kafka, source), is_there=partial(_is_there, kafka))
    joined.note(ctx)
    start, end = stored.from_position or {}, stored.to_position
    # Before the promise takes the place of what an earlier try has found.
    emptied = ctx.control.sources.compacted_up_to(feed.feed)
    asked = {source: offsets or 0 for source, offsets in promised(start, end).items()}
    completeness.promise(ctx, asked)
    wanted, ids = sum(asked.values()), kafka.ids(end)
    if wanted or ctx.has_raw_rows():
        if not catalog.exists(ctx.lake.raw):
            new_tables.create(ctx.lake.raw, RAW, change.RAW_PARTITIONS)
        since = ctx.main_before(ctx.lake.raw)
        raw = ctx.workers.read(kafka.messages(start, end)).through(partial(of_window, ctx.id), RAW)
        writes.replace_window(raw, ctx.lake.raw, ctx.id, since)
    completeness.note_messages(ctx, kafka, start, end, emptied)
    _require_one_topic(feed.feed, ids, kafka.ids(end))
    if wanted or input_records.replayed(ctx) is not None:
        _fetch_schemas(ctx)
    topics, offsets = counted(len(end), "topic"), counted(wanted, "offset")
    log.info("%s: read %s, %s, into %s", feed.feed, topics, offsets, ctx.lake.raw)


def _require_one_topic(feed: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Raises SourceUnavailable if a topic was recreated while it was read: raw may have records of both.

    `same_sources.require_known` has already refused topics that the feed has read before.
    """
    others = sorted(topic for topic, topic_id in before.items() if "" != topic_id != after[topic] != "")
    if others:
        raise SourceUnavailable(
            f"{feed}: the topic {', '.join(others)} was deleted and created again while it was read",
            "run the window again: it reads the topic that exists now",
        )


def _is_there(kafka: Kafka, stored: WindowRow) -> bool:
    """Do the topics still reach from the first to the last message of what an earlier try has resolved?

    If not, the window is resolved again, which reports what is lost, or skips what was released meanwhile.
    """
    start, end = stored.from_position or {}, stored.to_position
    topics = kafka.topics(end)
    earliest, latest = kafka.earliest(topics), kafka.latest(topics)
    return all(
        partition in earliest.get(topic, {})
        and earliest[topic][partition] <= start.get(topic, {}).get(partition, 0)
        and last <= latest[topic][partition]
        for topic, partitions in end.items()
        for partition, last in partitions.items()
        if start.get(topic, {}).get(partition, 0) < last
    )


def _fetch_schemas(ctx: StageContext) -> None:
    """Stores the Avro schemas that the messages name, before any message is decoded.

    A schema that the registry does not know is left out, and its records are quarantined. Raises
    SourceUnavailable if the registry does not answer.
    """
    feed = ctx.feed
    registry = SchemaRegistry.of(feed.connection, Connection.named(feed.connection))
    if registry is None:
        return
    # Includes records to replay: the registry may know their schemas by now.
    known = ctx.control.contracts.avro_schemas(feed.feed)
    wanted = [
        wanted_id for wanted_id in _schema_ids(input_records.raw(ctx, ctx.lake.raw)) if wanted_id not in known
    ]
    for schema_id, schema in registry.schemas(wanted):
        ctx.control.contracts.save_avro_schema(feed.feed, schema_id, schema, ctx.id)


def _schema_ids(raw: DataFrame) -> list[str]:
    """Returns the schema ids in frames of values and keys, the most frequent first.

    JSON never begins with a zero byte, so the lake's statistics rule out whole files of JSON.
    """
    counts: Counter[str] = Counter()
    for side, names in ID_HEADERS.items():
        framed = (F.col(side) < F.lit(b"\1")) & (F.octet_length(side) >= FRAME_BYTES)
        # A value whose schema id is in a header may begin with any bytes.
        elsewhere = F.expr(f"exists(headers, header -> {_has_id(names)})")
        is_framed = framed & ~F.coalesce(elsewhere, F.lit(col=False))
        frames = raw.where(is_framed).groupBy(F.substring(side, 1, FRAME_BYTES).alias("frame"))
        most = (
            frames.agg(F.count("*").alias("messages")).orderBy(F.desc("messages"), "frame").limit(_MOST_IDS)
        )
        for row in most.collect():
            for schema_id in schema_ids([bytes(row["frame"])]):
                counts[schema_id] += row["messages"]
    return [schema_id for schema_id, _ in counts.most_common()]


def _has_id(names: Iterable[str]) -> str:
    """Returns the SQL condition that a header has a schema id."""
    listed = ", ".join(f"'{name}'" for name in sorted(names))
    of_azure = f"header.key = '{CONTENT_TYPE}' AND startswith(header.value, cast('{AVRO_WITH_ID}' AS binary))"
    return f"header.key IN ({listed}) OR ({of_azure})"


def _resolve(ctx: StageContext, kafka: Kafka, source: KafkaTopics) -> tuple[Offsets, Offsets]:
    """Returns the window's first and last offsets per topic and partition; the last are exclusive."""
    feed = ctx.feed
    topics = kafka.topics_of(feed.feed, source.topics)
    released = ctx.released
    lacking = released.keys() - set(topics)
    check_named(feed.feed, kafka.topics(lacking) if lacking else ())
    earliest, end = kafka.earliest(topics), kafka.until(topics, ctx.window.end)
    latest, request = kafka.latest(topics), ctx.window.request
    check_continuity(feed.feed, released, earliest, latest)
    resetting.require_offsets(ctx, earliest)
    same_sources.require_known(ctx, kafka, earliest, latest)
    if request.reads_nothing_new:
        return released, released
    begin = kafka.at(topics, ctx.window.start)
    if request.mode == "window":
        check_retention(feed.feed, begin if request.partial else end, earliest, latest)
    if request.partial:
        # After a message with a future timestamp, a partition is read to its end; here only to the release.
        reached = kafka.at(topics, ctx.window.end)
        end = {
            t: {p: o if o == reached[t][p] else min(o, released.get(t, {}).get(p, o)) for p, o in ps.items()}
            for t, ps in end.items()
        }
        ctx.require_released(end, released)
        return begin, end
    # A message of a time to come is the first one of any time: a window that goes on would read from there.
    done = ctx.control.windows.reached(feed.feed)
    is_past = done is not None and ctx.window.start < done
    start: Offsets = {}
    for topic, partitions in end.items():
        start[topic] = {}
        for partition, last in partitions.items():
            # A topic or partition that no release has seen is read from its beginning.
            known = released.get(topic, {}).get(partition, earliest[topic][partition])
            first = min(known, begin[topic][partition]) if is_past and topic in released else known
            start[topic][partition] = min(first, last)
    return start, end
