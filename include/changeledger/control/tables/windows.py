"""Windows, their stages, and how far a feed is read."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import JSON, BigInteger, Index, Integer
from sqlalchemy.orm import Mapped, mapped_column

from changeledger.control.tables.base import ControlTable, Position
from changeledger.model.window import Request

TAKEN_BACK = "taken back"
DONE = ("released", "empty")


class WindowRow(ControlTable):
    """What one run reads: `[start, end)` in time, resolved once into source positions."""

    __tablename__ = "windows"
    # Those that are open, among those of years.
    __table_args__ = (Index("ix_windows_status", "feed", "status"),)

    feed: Mapped[str] = mapped_column(primary_key=True)
    window_id: Mapped[str] = mapped_column(primary_key=True)
    start: Mapped[datetime]
    end: Mapped[datetime]
    # None: the feed's first window, read from the source's beginning.
    from_position: Mapped[Position | None]
    to_position: Mapped[Position]
    # `open`, then `released`, or `empty`: it had nothing new, and the feed's position moved to its end.
    # `taken back`: the feed's position is before it again. It is resolved anew if it runs again.
    status: Mapped[str]
    opened_at: Mapped[datetime]
    # What was asked of the run beside its time (window.Request), as far as it is not the default.
    asked: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    # The release on which the branch was begun, 0 for none; None once main may be another.
    built_on: Mapped[int | None] = mapped_column(Integer)
    # The replay list as the window reads it: its snapshot. None: there is no list.
    replay_snapshot: Mapped[int | None] = mapped_column(BigInteger)

    @property
    def released(self) -> bool:
        return self.status == "released"

    @property
    def taken_back(self) -> bool:
        return self.status == TAKEN_BACK

    @property
    def done(self) -> bool:
        """Is there nothing left to do for it?"""
        return self.status in DONE

    @property
    def request(self) -> Request:
        return Request.model_validate_json(json.dumps(self.asked or {}))


class StageRow(ControlTable):
    """What a stage of a window has built, written when it is done.

    `tables`: each table's snapshot. Of `audit` those that were judged. `contracts`: of `normalize`, by table,
    as the run builds the tables; a release makes them the feed's.
    """

    __tablename__ = "stages"

    feed: Mapped[str] = mapped_column(primary_key=True)
    window_id: Mapped[str] = mapped_column(primary_key=True)
    stage: Mapped[str] = mapped_column(primary_key=True)
    # The Iceberg branch that has them.
    branch: Mapped[str]
    tables: Mapped[dict[str, int]] = mapped_column(JSON)
    contracts: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    at: Mapped[datetime]

    @property
    def built(self) -> BuiltSnapshots:
        return BuiltSnapshots(self.branch, self.tables)


class BuiltSnapshots(NamedTuple):
    """What a run has built: a snapshot of each table, and the Iceberg branch that has them."""

    branch: str
    tables: dict[str, int]


class PositionRow(ControlTable):
    """How far the releases of a feed reach: the next window begins here."""

    __tablename__ = "positions"

    feed: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[Position]
    window_id: Mapped[str]
    updated_at: Mapped[datetime]
