"""Checks that raw tables have what the source had, for each partition of a window once it is written.

Also stores the state of the source at that time, for `status` and alerts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa

from changeledger.config.feed import Feed
from changeledger.control import ControlStore, SourceMark, furthest
from changeledger.control.sources import COMPACTED
from changeledger.dialects.interface import DecisiveSetting, TablePositions, TableReader
from changeledger.kafka.topics import Kafka, Offsets, Retention
from changeledger.kernels.arrow import MESSAGE
from changeledger.lake import catalog, scans
from changeledger.model.errors import ConfigError, SourceDataLostError, load_again
from changeledger.model.source_state import SourceState, partition_state
from changeledger.model.window import SourceRead, partition_name
from changeledger.stages.common.context import StageContext, log

# In the counts of a release: what its rows were read by.
DIALECT: Final = "dialect"
_PARTITION = ["topic", "partition"]
# Between the landmarks of a table: no name has it.
_NEXT = "\x1e"
_PLACES = pa.schema([MESSAGE.field(name) for name in (*_PARTITION, "offset", "timestamp")])


class _PartitionCounts(NamedTuple):
    """Records of a partition: number, first offset, newest time in milliseconds since 1970."""

    rows: int
    first: int
    newest: int | None


def require_known(ctx: StageContext, kafka: Kafka, earliest: Offsets, latest: Offsets) -> None:
    """Raises SourceDataLostError if a topic is not the one that the feed has read before.

    A topic that was deleted and created again may have grown beyond what was read. Its id is another one;
    where the broker has no ids, it ends before the last record that was read, or has another one there. Runs
    that were not released have read it as well.
    """
    # A run that starts over may read other topics than before.
    marks = {} if ctx.starts_over else ctx.control.sources.marks(ctx.feed.feed)
    ids = kafka.ids(earliest)
    others: list[str] = []
    looked: Offsets = {}
    for topic, partitions in earliest.items():
        for number, low in partitions.items():
            mark = marks.get(partition_name(topic, number))
            if mark is None:
                continue
            is_other = mark.identity and ids[topic] and mark.identity != ids[topic]
            if is_other or mark.place > latest[topic][number]:
                others.append(topic)
            elif mark.fingerprint is not None and low < mark.place:
                looked.setdefault(topic, {})[number] = mark.place
    for topic, hashes in kafka.fingerprints(looked).items():
        known = {number: marks[partition_name(topic, number)] for number in hashes}
        unlike = [number for number, hashed in hashes.items() if hashed != known[number].fingerprint]
        # Compaction removes the last record that was read, too; the id says that the topic is the same.
        is_same = ids[topic] and all(known[number].identity for number in unlike)
        is_gone = is_same and not any(hashes[number] for number in unlike)
        if unlike and not (is_gone and kafka.compacted([topic])):
            others.append(topic)
    if others:
        raise SourceDataLostError(
            f"{ctx.feed.feed}: the topic {', '.join(sorted(set(others)))} was deleted and created again "
            "since it was read: what was in it after the last release is lost",
            load_again(ctx.feed.feed),
        )


def require_landmarks(ctx: StageContext, landmarks: Mapping[str, str], released: TablePositions) -> None:
    """Raises SourceDataLostError if a released position has another landmark than when it was read.

    `landmarks`: the present landmarks of the `released` positions, by table. For a table that the run does
    not read, it is only the beginning of the landmark, without the table's id.
    """
    marks = ctx.control.sources.marks(ctx.feed.feed)
    others = [
        f"{table}: {known} was read, now it is {text}"
        for table, text in landmarks.items()
        if table in marks
        for known in marks[table].identity.split(_NEXT)
        if known.startswith(released[table]) and not (text.startswith(known) or known.startswith(text))
    ]
    if others:
        raise SourceDataLostError(
            f"{ctx.feed.feed}: the source was restored, failed over with loss, or has another table of that "
            f"name: {'; '.join(others)}",
            load_again(ctx.feed.feed),
        )


def require_places(ctx: StageContext, released: TablePositions) -> None:
    """Raises SourceDataLostError for a table with published changes that was left out of a reset.

    The table has kept its changes, but the position up to which they reach is lost, and a clean-up of the
    source may have removed what follows.
    """
    feed, control = ctx.feed.feed, ctx.control
    ledgers = {table: names.changes for table, names in ctx.names.items() if table not in released}
    if ctx.starts_over or not ledgers or all(row.release is None for row in control.resets.of_feed(feed)):
        return
    there = catalog.existing(ledgers.values())
    published = {table for table, ledger in ledgers.items() if ledger in there and scans.has_rows(ledger)}
    # A table with nothing but a full load never had a position.
    known = {table for row in control.releases.of_feed(feed) for table in row.positions} if published else ()
    lost = ", ".join(sorted(published & {*known}))
    if lost:
        raise SourceDataLostError(
            f"{feed}: the feed was loaded again without {lost}, and how far the published changes of that "
            "reach in the source is not known any more",
            f"leave it out of `tables:`, or load the feed again with it: `changeledger reset {feed} --reason "
            "...`, and run it",
        )


def require_dialect(control: ControlStore, feed: Feed) -> None:
    """Raises ConfigError if what is released was read by another dialect: positions of two have no order."""
    release = control.releases.latest(feed.feed)
    was = None if release is None else release.counts.get(DIALECT)
    if was not in {None, feed.dialect}:
        raise ConfigError(
            f"{feed.feed}: published rows were read by `dialect: {was}`, and the next are to be read by "
            f"`dialect: {feed.dialect}`: changes of two dialects stand in no order",
            "put it back; or give a feed of the other dialect a name of its own (`feed:`). "
            f"`changeledger reset {feed.feed} --reason ...` loads all of this feed again by the new dialect, "
            "if its source still has everything from the beginning",
        )


def require_setting(
    control: ControlStore, feed: Feed, setting: DecisiveSetting, released: TablePositions
) -> None:
    """Raises ConfigError if released rows were read with another value of the setting."""
    marks, value = control.sources.marks(feed.feed), setting.value_in(feed)
    others = {marks[table].fingerprint for table in released if table in marks} - {None, value}
    if others:
        was = ", ".join(sorted(map(str, others)))
        raise ConfigError(
            f"{feed.feed}: published rows were read by `{setting.name}: {was}`, and the next are to be read "
            f"by `{value}`: tables would have rows of both",
            f"put it back; or, if published rows are wrong, `changeledger reset {feed.feed} --reason ...` "
            "loads all of them again by the new setting. If the source itself is another one from now on, "
            "give the feed a new name",
        )


def promise(ctx: StageContext, asked: Mapping[str, int]) -> None:
    """Stores the expected number of records by source before reading, so that missing ones are noticed."""
    reads = [
        SourceRead(source, number, 0, problem="it was not read to its end" if number else None)
        for source, number in asked.items()
    ]
    ctx.control.sources.save_reads(ctx.feed.feed, ctx.window, reads)


def note_messages(ctx: StageContext, kafka: Kafka, start: Offsets, end: Offsets, emptied: Offsets) -> None:
    """Store what was asked for and what came, and by what the partitions are known again.

    The topics may have been made again since the window was resolved: that is asked once more first. Offsets
    without a message are marks of transactions, or aborted messages; in a compacted topic they are
    lost changes. So they are up to where compaction has `emptied` some, whatever the topic's policy is now.
    """
    counts = _counted(ctx)
    earliest, policies = kafka.earliest(end), kafka.retention(end)
    require_known(ctx, kafka, earliest, kafka.latest(end))
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
                was_compacted = first < emptied.get(topic, {}).get(number, 0)
                problem = _without_record(asked, received, policies.get(topic), was_compacted)
            elif received > asked:
                problem = f"{received} records came of {asked} offsets"
            before = 0 if topic in ctx.released else first
            reads.append(SourceRead(partition_name(topic, number), asked, received, before, problem))
    ctx.control.sources.save_reads(ctx.feed.feed, ctx.window, reads)
    _mark(ctx, kafka, end)
    _save_topic_states(ctx, kafka, end, {source: partition.newest for source, partition in counts.items()})


def _without_record(asked: int, received: int, policy: Retention | None, was_compacted: bool) -> str | None:
    """Why offsets have no record, but for marks of transactions."""
    lacks = f"of {asked} offsets {asked - received} have no record"
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


def _mark(ctx: StageContext, kafka: Kafka, end: Offsets) -> None:
    ids, hashes = kafka.ids(end), kafka.fingerprints(end)
    marks = {
        partition_name(topic, number): SourceMark(ids[topic], last, hashes.get(topic, {}).get(number))
        for topic, partitions in end.items()
        for number, last in partitions.items()
    }
    save_marks(ctx, marks)


def save_landmarks(
    ctx: StageContext, landmarks: Mapping[str, str], released: TablePositions, read_by: str | None
) -> None:
    """Store the landmarks of the positions that a window has read up to, and the setting by which.

    Those since the last release stay beside them: the window may never be released.
    """
    marks = {} if ctx.starts_over else ctx.control.sources.marks(ctx.feed.feed)
    kept: dict[str, SourceMark] = {}
    for table in landmarks.keys() & ctx.names.keys():
        earlier = marks[table].identity.split(_NEXT) if table in marks else []
        lines = [line for line in earlier if line >= released.get(table, "")]
        by_position = {line.partition(" ")[0]: line for line in [*lines, landmarks[table]]}
        kept[table] = SourceMark(_NEXT.join(by_position.values()), 0, read_by)
    save_marks(ctx, kept)


def save_marks(ctx: StageContext, marks: Mapping[str, SourceMark]) -> None:
    """Store by what the sources are known again."""
    feed, sources = ctx.feed.feed, ctx.control.sources
    if ctx.starts_over:
        sources.save_marks_of_reset(feed, ctx.window, marks)
    else:
        sources.save_marks(feed, marks)


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
