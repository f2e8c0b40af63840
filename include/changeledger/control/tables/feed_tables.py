"""The tables that a feed reads, and what those lack that it got later."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger
from sqlalchemy.orm import Mapped, mapped_column

from changeledger.control.tables.base import ControlTable


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
