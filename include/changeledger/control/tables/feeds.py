"""What is known of a feed apart from its windows: its tables, failures and resets."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, Boolean, Integer
from sqlalchemy.orm import Mapped, mapped_column

from changeledger.control.tables.base import ControlTable

# Status of a reset.
ASKED, PUBLISHED, WITHDRAWN = "asked", "published", "withdrawn"


class FeedTableRow(ControlTable):
    """A table that the feed lists, since the first run with it."""

    __tablename__ = "feed_tables"

    feed: Mapped[str] = mapped_column(primary_key=True)
    table: Mapped[str] = mapped_column(primary_key=True)
    # Number of records that the feed read before it listed the table, and has not read again yet.
    lacking: Mapped[int] = mapped_column(BigInteger)
    # Time of the windows that have read them: a run over this time reads them again. NULL if nothing lacks.
    since: Mapped[datetime | None]
    until: Mapped[datetime | None]
    # Why they are declined, and by whom.
    declined_reason: Mapped[str | None]
    declined_by: Mapped[str | None]


class FailureRow(ControlTable):
    """The failure of the feed's last stage. It is deleted when a stage of the feed succeeds.

    For a database's comparison or proof, `feed` is the name of its DAG, and there is no window.
    """

    __tablename__ = "failures"

    feed: Mapped[str] = mapped_column(primary_key=True)
    window_id: Mapped[str]
    stage: Mapped[str]
    # The error with its remedy.
    error: Mapped[str]
    at: Mapped[datetime]


class NoticeRow(ControlTable):
    """A failure that people were told of, until the subject succeeds."""

    __tablename__ = "notices"

    # The feed, or the work on a database, such as `compare_shop`.
    subject: Mapped[str] = mapped_column(primary_key=True)
    event: Mapped[str] = mapped_column(primary_key=True)
    since: Mapped[datetime]


class ResetRow(ControlTable):
    """A reset. Its status is `asked` until a release publishes it or somebody withdraws it."""

    __tablename__ = "resets"

    feed: Mapped[str] = mapped_column(primary_key=True)
    # Numbered by feed, from 1.
    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    status: Mapped[str]
    reason: Mapped[str]
    by: Mapped[str]
    # Whether the source may have lost records that the feed has read.
    accept_gap: Mapped[bool] = mapped_column(Boolean)
    asked_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    # The release that published the rebuilt tables.
    release: Mapped[int | None] = mapped_column(Integer)
    withdrawn_by: Mapped[str | None]
    withdrawn_reason: Mapped[str | None]
