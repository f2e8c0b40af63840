"""Finds the version of its table that a message without a schema id has.

Qlik writes metadata before the data of its version: into each partition of the data's topic, or into a topic
of its own, where it has no order with the data. A task that resumes writes messages again, after newer
metadata. So the columns that a message has decide first. If they fit several versions (a type changed, a
column was dropped and added again, a delete has only the key), the metadata in force for the message decides.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple, get_args

from changeledger.dialects.qlik_messages import instants, masks
from changeledger.dialects.qlik_messages.addresses import Contents
from changeledger.dialects.qlik_messages.events import DELETE, INSERT, UPDATE
from changeledger.dialects.qlik_messages.values import is_null
from changeledger.model.contract import ByteOrder, Contract

Place = tuple[str, int, int]


class Mark(NamedTuple):
    """The position of a metadata message, and when it was written, in microseconds since 1970."""

    place: Place
    # The time of its Kafka message, and the one that it states (`lineage.timestamp`).
    written_at: int | None
    stated_at: int | None

    @property
    def moment(self) -> int:
        times = (self.stated_at, self.written_at)
        return next((at for at in times if at is not None), 0)

    @property
    def order(self) -> tuple[int, int, Place]:
        return self.moment, self.written_at or 0, self.place


class Version(NamedTuple):
    """One structure of a table, from `since` until the next version's `since`; microseconds since 1970."""

    writer_schema: Contract
    columns: frozenset[str]
    since: int = 0
    # The time of the first Kafka message with its metadata.
    written_at: int | None = None


class DataMessage(NamedTuple):
    """What identifies the version of a data message."""

    place: Place
    written_at: int | None
    contents: Contents

    @property
    def committed_at(self) -> int | None:
        """The commit time by the message's own times, else the time of its Kafka message."""
        written = instants.known(self.contents.timestamp)
        if written is None and self.contents.sequence:
            written = instants.of_sequence(self.contents.sequence)
        return self.written_at if written is None else written


@dataclass(frozen=True)
class Versions:
    """The versions of one table, oldest first."""

    versions: Sequence[Version]
    # By topic and partition: the offsets of metadata messages, and the numbers of their versions.
    marks: Mapping[tuple[str, int], tuple[Sequence[int], Sequence[int]]] = field(default_factory=dict)

    def with_schemas(self, change: Callable[[Contract], Contract]) -> Versions:
        """Returns the versions with `change` applied to each writer schema; their `columns` stay."""
        changed = [version._replace(writer_schema=change(version.writer_schema)) for version in self.versions]
        return Versions(changed, self.marks)

    def number(self, message: DataMessage) -> int:
        """Returns the number of a message's version."""
        fitting = self.fitting(message.contents)
        if len(fitting) == 1:
            return fitting[0]
        in_force = self.in_force(message)
        return max((at for at in fitting if at <= in_force), default=fitting[0])

    def fitting(self, contents: Contents) -> Sequence[int]:
        """Returns the versions that have exactly a message's columns; else those with all of them; else all.

        If there are several, the masks select those that have the columns in these places.
        """
        every, columns = range(len(self.versions)), contents.columns
        if columns is None:
            return every
        exact = [at for at in every if self.versions[at].columns == columns]
        fitting = exact or [at for at in every if self.versions[at].columns >= columns] or every
        if len(fitting) == 1:
            return fitting
        return [at for at in fitting if _masks_fit(contents, self.versions[at].writer_schema)] or fitting

    def in_force(self, message: DataMessage) -> int:
        """Returns the newest version before a message in its partition, else the one at its commit time.

        A message never has a version whose metadata was written after it: -1 if all of it was.
        """
        topic, partition, offset = message.place
        offsets, numbers = self.marks.get((topic, partition), ((), ()))
        behind = bisect_right(offsets, offset)
        before, after = numbers[:behind], numbers[behind:]
        newest = before[-1] if before else -1
        latest = min((at - 1 for at in after if at > newest), default=len(self.versions) - 1)
        at_commit = self._committed_by(message.committed_at, newest if before else len(self.versions) - 1)
        # Perhaps only another partition has its metadata.
        if at_commit > newest and at_commit not in before:
            newest = at_commit
        return min(newest, latest, self._written_by(message.written_at))

    def _committed_by(self, moment: int | None, unknown: int) -> int:
        if moment is None:
            return unknown
        return max((at for at, version in enumerate(self.versions) if version.since <= moment), default=0)

    def _written_by(self, moment: int | None) -> int:
        """Returns the newest version whose metadata Kafka had at a moment."""
        newest = len(self.versions) - 1
        while newest and moment is not None and moment < (self.versions[newest].written_at or 0):
            newest -= 1
        return newest


def only(writer_schema: Contract, since: int = 0) -> Versions:
    """Returns a single version."""
    return Versions([Version(writer_schema, frozenset(writer_schema.names), since)])


def versions(metadata: Mapping[Mark, Contract]) -> Versions:
    """Builds the versions of a table from all of its metadata."""
    in_order = sorted(metadata.items(), key=lambda marked_schema: marked_schema[0].order)
    table_versions: list[Version] = []
    numbers: list[tuple[Place, int]] = []
    for number, (writer_schema, same) in enumerate(
        groupby(in_order, key=lambda marked_schema: marked_schema[1])
    ):
        marks = [mark for mark, _ in same]
        written = [mark.written_at for mark in marks if mark.written_at is not None]
        table_versions.append(
            Version(
                writer_schema, frozenset(writer_schema.names), marks[0].moment, min(written, default=None)
            )
        )
        numbers += [(mark.place, number) for mark in marks]
    partitions: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
    for (topic, partition, offset), number in sorted(numbers):
        of_partition = partitions.setdefault((topic, partition), ([], []))
        of_partition[0].append(offset)
        of_partition[1].append(number)
    return Versions(_in_wider_types(table_versions), partitions)


def _in_wider_types(table_versions: Sequence[Version]) -> list[Version]:
    """Gives all versions the widest types.

    If only a type changed, the wider type reads both versions, so no time has to tell them apart.
    """
    wider = []
    for version in table_versions:
        writer_schema = version.writer_schema
        for other in table_versions:
            writer_schema = writer_schema.in_wider_types(other.writer_schema)
        wider.append(version._replace(writer_schema=writer_schema))
    return wider


def telling(metadata: Mapping[Mark, Contract]) -> Iterator[Mark]:
    """Yields the metadata messages that say something new, in their partition or at their time.

    A task that resumes repeats its metadata, and not every repetition can be remembered.
    """
    partitions: dict[tuple[str, int], list[Mark]] = {}
    for mark in sorted(metadata, key=lambda mark: mark.place):
        partitions.setdefault(mark.place[:2], []).append(mark)
    orders = [sorted(metadata, key=lambda mark: mark.order), *partitions.values()]
    telling_marks = {
        mark
        for marks in orders
        for before, mark in zip([None, *marks], marks, strict=False)
        if before is None or metadata[before] != metadata[mark]
    }
    return (mark for mark in metadata if mark in telling_marks)


def _masks_fit(contents: Contents, writer_schema: Contract) -> bool:
    """Returns whether a message's masks agree with its images under one version of its table.

    The rules are those of `findings`, for one message before it is decoded. Either byte order will do.
    """
    return any(_fits(contents, writer_schema, order) for order in get_args(ByteOrder))


def _fits(contents: Contents, writer_schema: Contract, order: ByteOrder) -> bool:
    named, present = (_named(text, order) for text in (contents.change_mask, contents.column_mask))
    highest = max(column.ordinal for column in writer_schema.columns)
    if any(mask is not None and mask >> highest for mask in (named, present)):
        return False
    after = contents.data or {}
    if present is not None and contents.operation != DELETE:
        absent = [c.name for c in writer_schema.columns if not present >> (c.ordinal - 1) & 1]
        if any(not is_null(after.get(name)) for name in absent):
            return False
    return named is None or all(
        expected is None or expected == bool(named >> (column.ordinal - 1) & 1)
        for column, expected in zip(writer_schema.columns, _expected(contents, writer_schema), strict=True)
    )


def _named(text: str | None, order: ByteOrder) -> int | None:
    mask = masks.parse(text) if text else None
    return None if mask is None else int.from_bytes(mask, order)


def _expected(contents: Contents, writer_schema: Contract) -> list[bool | None]:
    """Returns for each column whether the mask of changes should have its bit set; None: either."""
    before, after = contents.before_data, contents.data
    if contents.operation == DELETE:
        return [bool(column.key_position) for column in writer_schema.columns]
    if contents.operation == INSERT and after is not None:
        return [
            False if is_large else None if is_null(after.get(name)) else True
            for name, is_large in zip(writer_schema.names, writer_schema.large, strict=True)
        ]
    if contents.operation == UPDATE and after is not None and before is not None:
        return [
            not is_large and after.get(name) != before.get(name)
            for name, is_large in zip(writer_schema.names, writer_schema.large, strict=True)
        ]
    return [None] * len(writer_schema.columns)
