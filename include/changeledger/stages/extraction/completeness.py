"""Checks that raw tables have what the source had, for each partition of a window once it is written.

Also stores the state of the source at that time, for `status` and alerts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa

from changeledger.control import furthest
from changeledger.control.sources import COMPACTED
from changeledger.dialects.interface import TablePositions, TableReader
from changeledger.kafka.topics import Kafka, Offsets, Retention
from changeledger.kernels.arrow import MESSAGE
from changeledger.lake import catalog, scans
from changeledger.model.source_state import SourceState, partition_state
from changeledger.model.window import SourceRead, partition_name
from changeledger.stages.common.context import StageContext, log
from changeledger.stages.extraction import same_sources

_PARTITION = ["topic", "partition"]
_PLACES = pa.schema([MESSAGE.field(name) for name in (*_PARTITION, "offset", "timestamp")])


class _PartitionCounts(NamedTuple):
    """Records of a partition: number, first offset, newest time in milliseconds since 1970."""

    rows: int
    first: int
    newest: int | None


def promise(ctx: StageContext, asked: Mapping[str, int]) -> None:
    """Stores the expected number of records by source before reading, so that missing ones are noticed."""
    reads = [
        SourceRead(source, number, 0, problem="it was not read to its end" if number else None)
        for source, number in asked.items()
    ]
    ctx.control.sources.save_reads(ctx.feed.feed, ctx.window, reads)


def note_messages(
    ctx: StageContext, kafka: Kafka, start: Offsets, end: Offsets, emptied: Mapping[str, int]
) -> None:
    """Stores the expected and received records of each partition, and marks what was read.

    Checks first that no topic was created again since the window was resolved. Offsets without a message are
    transaction markers or aborted messages, but in a compacted topic they are lost changes. Below the offsets
    in `emptied` they are lost, too: compaction has removed some there, whatever the topic's policy is now.
    """
    counts = _counted(ctx)
    earliest, policies = kafka.earliest(end), kafka.retention(end)
    same_sources.require_known(ctx, kafka, earliest, kafka.latest(end))
    reads = []
    for topic, partitions in end.items():
        for number, last in partitions.items():
            first = start.get(topic, {}).get(number, 0)
            here = counts.get(partition_name(topic, number))
            received, lowest = (0, last) if here is None else (here.rows, here.first)
            asked, low = last - first, earliest.get(topic, {}).get(number, 0)
            problem = None
            if first < min(low, lowest, last):
                problem = f"offsets {first} to {min(low, lowest) - 1} were removed while they were read"
            elif received < asked:
                was_compacted = first < emptied.get(partition_name(topic, number), 0)
                problem = _without_record(asked, received, policies.get(topic), was_compacted)
            elif received > asked:
                problem = f"{received} records were read from {asked} offsets"
            before = 0 if topic in ctx.released else first
            reads.append(SourceRead(partition_name(topic, number), asked, received, before, problem))
    ctx.control.sources.save_reads(ctx.feed.feed, ctx.window, reads)
    same_sources.mark_topics(ctx, kafka, end)
    _save_topic_states(ctx, kafka, end, {source: partition.newest for source, partition in counts.items()})


def _without_record(asked: int, received: int, policy: Retention | None, was_compacted: bool) -> str | None:
    """Returns why offsets have no record; None if they are transaction markers."""
    lacks = f"{asked - received} of {asked} offsets have no record"
    if policy is None:
        return f"{lacks}, and the login may not ask whether the topic is compacted (DESCRIBE_CONFIGS)"
    if policy.compacts or was_compacted:
        return f"the topic {'is' if policy.compacts else 'was'}{COMPACTED}{lacks}"
    return None


def _counted(ctx: StageContext) -> dict[str, _PartitionCounts]:
    """Counts the window's records of each partition that has some. Reads file by file, without Spark."""
    if not catalog.exists(ctx.lake.raw):
        return {}
    counted = [
        pa.Table.from_batches([batch])
        .group_by(_PARTITION)
        .aggregate([([], "count_all"), ("offset", "min"), ("timestamp", "max")])
        for batch in scans.batches(ctx.lake.raw, scans.of_window(ctx.id), _PLACES)
    ]
    if not counted:
        return {}
    of_all = [("count_all", "sum"), ("offset_min", "min"), ("timestamp_max", "max")]
    by_partition = pa.concat_tables(counted).group_by(_PARTITION).aggregate(of_all)
    times = by_partition.column("timestamp_max_max").cast(pa.int64()).to_pylist()
    rows = by_partition.select([*_PARTITION, "count_all_sum", "offset_min_min"]).to_pylist()
    return {
        partition_name(row["topic"], str(row["partition"])): _PartitionCounts(
            row["count_all_sum"], row["offset_min_min"], None if time is None else time // 1000
        )
        for row, time in zip(rows, times, strict=True)
    }


def _save_topic_states(
    ctx: StageContext, kafka: Kafka, end: Offsets, newest: Mapping[str, int | None]
) -> None:
    """Stores and warns of the state of each partition.

    `newest`: by partition, the time of the window's newest record, in milliseconds since 1970.
    """
    read: Offsets = {t: ps for t, ps in _reached(ctx, end).items() if t in end}
    stable, last = kafka.latest(read), kafka.latest(read, committed=False)
    behind = {t: {p: o for p, o in ps.items() if o < last.get(t, {}).get(p, o)} for t, ps in read.items()}
    first = kafka.times(behind)
    earlier, now = ctx.control.sources.states(ctx.feed.feed), datetime.now(UTC)
    states = []
    for topic, partitions in read.items():
        for number, offset in partitions.items():
            source = partition_name(topic, number)
            time = newest.get(source)
            states.append(
                partition_state(
                    source,
                    offset,
                    stable.get(topic, {}).get(number, offset),
                    last.get(topic, {}).get(number, offset),
                    first=first.get(topic, {}).get(number),
                    newest=None if time is None else datetime.fromtimestamp(time / 1000, UTC),
                    earlier=earlier.get(source),
                    at=now,
                )
            )
    ctx.control.sources.save_states(ctx.feed.feed, states)
    _warn(ctx, states)


def save_table_states(ctx: StageContext, reader: TableReader, end: TablePositions) -> None:
    states = reader.source_states(_reached(ctx, end), datetime.now(UTC))
    ctx.control.sources.save_states(ctx.feed.feed, states)
    _warn(ctx, states)


def _warn(ctx: StageContext, states: Sequence[SourceState]) -> None:
    for state in states:
        if state.is_odd or state.is_late(state.at, ctx.feed.deadline):
            log.warning("%s: %s", ctx.feed.feed, state.text())


def _reached(ctx: StageContext, end: Any) -> Any:
    """Returns how far the feed has read: a past window ends before what is released."""
    return furthest(ctx.released, end)
