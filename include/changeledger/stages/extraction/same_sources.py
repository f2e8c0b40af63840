"""Checks that a source is the one that the feed has read before, read in the same way.

A topic may have been deleted and created again, a database restored, a setting changed. Each window stores
marks of what it has read: ids of topics, the last record of each partition, landmarks of positions in change
tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from changeledger.config.feed import Feed
from changeledger.control import ControlStore, SourceMark
from changeledger.dialects.interface import DecisiveSetting, TablePositions
from changeledger.kafka.topics import Kafka, Offsets
from changeledger.lake import catalog, scans
from changeledger.model.errors import ConfigError, SourceDataLostError, load_again
from changeledger.model.window import partition_name
from changeledger.stages.common.context import StageContext

# The count of a release that names the dialect by which its rows were read.
DIALECT: Final = "dialect"
# Separates the landmarks of a table; no name contains it.
_NEXT = "\x1e"


def require_known(ctx: StageContext, kafka: Kafka, earliest: Offsets, latest: Offsets) -> None:
    """Raises SourceDataLostError if a topic is not the one that the feed has read before.

    A topic that was deleted and created again may have grown beyond what was read, but it has another id. If
    the broker has no ids, the topic ends before the last record that was read, or has another record there.
    Runs that were not released count as readers, too.
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
        # Compaction may have removed the last record that was read. The id shows that the topic is the same.
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
            f"{ctx.feed.feed}: the source was restored, failed over with data loss, or has another "
            f"table of that name: {'; '.join(others)}",
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
            f"{feed}: the feed was loaded again without {lost}, whose published changes reach a "
            "position in the source that is no longer known",
            f"leave it out of `tables:`, or load the feed again with it: `changeledger reset {feed} --reason "
            "...`, and run it",
        )


def require_dialect(control: ControlStore, feed: Feed) -> None:
    """Raises ConfigError if released rows were read by another dialect.

    The positions of two dialects have no common order.
    """
    release = control.releases.latest(feed.feed)
    was = None if release is None else release.counts.get(DIALECT)
    if was not in {None, feed.dialect}:
        raise ConfigError(
            f"{feed.feed}: published rows were read by `dialect: {was}`, but the next would be read by "
            f"`dialect: {feed.dialect}`: changes of two dialects have no common order",
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
            f"{feed.feed}: published rows were read by `{setting.name}: {was}`, but the next would be "
            f"read by `{value}`: tables would have rows of both",
            f"put it back; or, if published rows are wrong, `changeledger reset {feed.feed} --reason "
            "...` loads all of them again by the new setting. If the source itself has been replaced, "
            "give the feed a new name",
        )


def mark_topics(ctx: StageContext, kafka: Kafka, end: Offsets) -> None:
    """Stores the topics' ids, and the last record that the window has read of each partition."""
    ids, hashes = kafka.ids(end), kafka.fingerprints(end)
    marks = {
        partition_name(topic, number): SourceMark(ids[topic], last, hashes.get(topic, {}).get(number))
        for topic, partitions in end.items()
        for number, last in partitions.items()
    }
    _save_marks(ctx, marks)


def save_landmarks(
    ctx: StageContext, landmarks: Mapping[str, str], released: TablePositions, read_by: str | None
) -> None:
    """Stores the landmarks of the positions up to which a window has read, and its decisive setting's value.

    Landmarks since the last release are kept beside them, because the window may never be released.
    """
    marks = {} if ctx.starts_over else ctx.control.sources.marks(ctx.feed.feed)
    kept: dict[str, SourceMark] = {}
    for table in landmarks.keys() & ctx.names.keys():
        earlier = marks[table].identity.split(_NEXT) if table in marks else []
        lines = [line for line in earlier if line >= released.get(table, "")]
        by_position = {line.partition(" ")[0]: line for line in [*lines, landmarks[table]]}
        kept[table] = SourceMark(_NEXT.join(by_position.values()), 0, read_by)
    _save_marks(ctx, kept)


def _save_marks(ctx: StageContext, marks: Mapping[str, SourceMark]) -> None:
    """Stores the marks by which later runs recognize the sources."""
    feed, sources = ctx.feed.feed, ctx.control.sources
    if ctx.starts_over:
        sources.save_marks_of_reset(feed, ctx.window, marks)
    else:
        sources.save_marks(feed, marks)
