"""The last failure of a feed."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.orm import Mapped, mapped_column

from changeledger.control.tables.base import ControlTable


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
