"""Resets: that a feed is to be loaded again from its source's beginning."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Boolean, Integer
from sqlalchemy.orm import Mapped, mapped_column

from changeledger.control.tables.base import ControlTable

ASKED, PUBLISHED, WITHDRAWN = "asked", "published", "withdrawn"


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
