"""What people were told of and that lasts."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.orm import Mapped, mapped_column

from changeledger.control.tables.base import ControlTable


class NoticeRow(ControlTable):
    """A failure from when it was first told until what has failed succeeds."""

    __tablename__ = "notices"

    # The feed, or what is done for a database: `compare_shop`.
    subject: Mapped[str] = mapped_column(primary_key=True)
    event: Mapped[str] = mapped_column(primary_key=True)
    since: Mapped[datetime]
