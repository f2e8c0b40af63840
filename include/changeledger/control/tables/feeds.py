"""What is known of a feed beside its windows: its tables, how it fails, resets that were asked for."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, Boolean, Integer
from sqlalchemy.orm import Mapped, mapped_column

from changeledger.control.tables.base import ControlTable

# How a reset stands.
ASKED, PUBLISHED, WITHDRAWN = "asked", "published", "withdrawn"


class FeedTableRow(ControlTable):
    """A table, from the first run of the feed that lists it."""

    __tablename__ = "feed_tables"

    feed: Mapped[str] = mapped_column(primary_key=True)
    table: Mapped[str] = mapped_column(primary_key=True)
    # Records that the feed had read before it listed the table, and that are not read again yet.
    lacking: Mapped[int] = mapped_column(BigInteger)
    # The windows that have read them: a run over this time reads them again. NULL where nothing lacks.
    since: Mapped[datetime | None]
    until: Mapped[datetime | None]
    # Why nobody wants them, and who says so.
    declined_reason: Mapped[str | None]
    declined_by: Mapped[str | None]


class FailureRow(ControlTable):
    """How the feed's last stage failed; it goes when a stage of the feed succeeds.

    Of a database's comparison or proof `feed` is the name of its DAG, and there is no window.
    """

    __tablename__ = "failures"

    feed: Mapped[str] = mapped_column(primary_key=True)
    window_id: Mapped[str]
    stage: Mapped[str]
    # With its remedy.
    error: Mapped[str]
    at: Mapped[datetime]


class NoticeRow(ControlTable):
    """A failure from when it was first told until what has failed succeeds."""

    __tablename__ = "notices"

    # The feed, or what is done for a database: `compare_shop`.
    subject: Mapped[str] = mapped_column(primary_key=True)
    event: Mapped[str] = mapped_column(primary_key=True)
    since: Mapped[datetime]


class ResetRow(ControlTable):
    """A reset that was asked for: `asked` until a release has it, or until somebody withdraws it."""

    __tablename__ = "resets"

    feed: Mapped[str] = mapped_column(primary_key=True)
    # Each feed counts its own, from 1.
    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    status: Mapped[str]
    reason: Mapped[str]
    by: Mapped[str]
    # May the source have lost what the feed has read of it?
    accept_gap: Mapped[bool] = mapped_column(Boolean)
    asked_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    # The release that published the tables that were built anew.
    release: Mapped[int | None] = mapped_column(Integer)
    withdrawn_by: Mapped[str | None]
    withdrawn_reason: Mapped[str | None]
