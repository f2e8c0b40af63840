"""The state of the source once extract has read it: stored for `status` and alerts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from changeledger.control import furthest
from changeledger.dialects.interface import TablePositions, TableReader
from changeledger.kafka.topics import Kafka, Offsets
from changeledger.model.source_state import SourceState, partition_state
from changeledger.stages.common.context import StageContext, log


def save_topic_states(
    ctx: StageContext, kafka: Kafka, end: Offsets, newest: Mapping[str, int | None]
) -> None:
    """`newest`: by partition, the time of the newest record that the window has read, in milliseconds."""
    read: Offsets = {t: ps for t, ps in _reached(ctx, end).items() if t in end}
    stable, last = kafka.latest(read), kafka.latest(read, committed=False)
    behind = {t: {p: o for p, o in ps.items() if o < last.get(t, {}).get(p, o)} for t, ps in read.items()}
    first = kafka.times(behind)
    earlier, now = ctx.control.sources.states(ctx.feed.feed), datetime.now(UTC)
    states = []
    for topic, partitions in read.items():
        for number, offset in partitions.items():
            source = f"{topic}[{number}]"
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
    """How far the feed has read: a window of the past knows less than a release."""
    return furthest(ctx.released, end)
