"""What windows have read of sources, and how sources are recognized."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger
from sqlalchemy.orm import Mapped, mapped_column

from changeledger.control.tables.base import ControlTable


class ReadRow(ControlTable):
    """One source of a window (a topic's partition or a change table), and whether raw has all of it."""

    __tablename__ = "reads"

    feed: Mapped[str] = mapped_column(primary_key=True)
    window_id: Mapped[str] = mapped_column(primary_key=True)
    # `topic[partition]`, or the change table's name.
    source: Mapped[str] = mapped_column(primary_key=True)
    # Number of offsets, or of rows that the source counts.
    asked: Mapped[int] = mapped_column(BigInteger)
    # Number of raw rows.
    received: Mapped[int] = mapped_column(BigInteger)
    # Number of offsets that were removed before the feed first read the partition.
    before: Mapped[int] = mapped_column(BigInteger)
    # Why raw is not what was asked for; None if it is.
    problem: Mapped[str | None]


class SourceMarkRow(ControlTable):
    """By what a partition is known again: its topic's id, and the last record that was read of it.

    Of a window that starts over its id stands before the source, until it is released.
    """

    __tablename__ = "source_marks"

    feed: Mapped[str] = mapped_column(primary_key=True)
    source: Mapped[str] = mapped_column(primary_key=True)
    # The topic's id; empty if the broker has none. Of a change table by what its released position is known
    # again, and those of later runs that were not released.
    identity: Mapped[str]
    # The offset after the record, and a hash of the record; None if none is there (a transaction marker). For
    # a change table: 0, and the time zone by which its commit times were read.
    place: Mapped[int] = mapped_column(BigInteger)
    fingerprint: Mapped[str | None]


class SourceStateRow(ControlTable):
    """The state in which extract has last seen a source: `model.source_state.SourceState`."""

    __tablename__ = "source_states"

    feed: Mapped[str] = mapped_column(primary_key=True)
    source: Mapped[str] = mapped_column(primary_key=True)
    read: Mapped[str]
    end: Mapped[str]
    behind: Mapped[int | None] = mapped_column(BigInteger)
    since: Mapped[datetime | None]
    newest: Mapped[datetime | None]
    why: Mapped[str | None]
    at: Mapped[datetime]
