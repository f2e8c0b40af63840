"""Windows, their stages, and how far feeds are read."""

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
    """What one run reads: the time `[start, end)`, resolved once into source positions."""

    __tablename__ = "windows"
    # For open windows, among those of years.
    __table_args__ = (Index("ix_windows_status", "feed", "status"),)

    feed: Mapped[str] = mapped_column(primary_key=True)
    window_id: Mapped[str] = mapped_column(primary_key=True)
    start: Mapped[datetime]
    end: Mapped[datetime]
    # None for the feed's first window, which reads from the source's beginning.
    from_position: Mapped[Position | None]
    to_position: Mapped[Position]
    # `open`, then `released`; or `empty` if it had nothing new and the feed's position moved to its end.
    # `taken back` if the feed's position is before it again; if it runs again, it is resolved again.
    status: Mapped[str]
    opened_at: Mapped[datetime]
    # The run's request apart from its time (window.Request), without defaults.
    asked: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    # The release from which the branch began, 0 for none; None once main may have moved.
    built_on: Mapped[int | None] = mapped_column(Integer)
    # The snapshot of the replay list that the window reads; None: there is no list.
    replay_snapshot: Mapped[int | None] = mapped_column(BigInteger)

    @property
    def released(self) -> bool:
        return self.status == "released"

    @property
    def taken_back(self) -> bool:
        return self.status == TAKEN_BACK

    @property
    def done(self) -> bool:
        """Whether nothing is left to do for the window."""
        return self.status in DONE

    @property
    def request(self) -> Request:
        return Request.model_validate_json(json.dumps(self.asked or {}))


class StageRow(ControlTable):
    """What a stage of a window has built, written when the stage is done.

    `tables`: snapshots by table; for `audit`, those that were judged. `contracts`: for `normalize`, the
    contracts by which the run builds its tables; a release makes them the feed's.
    """

    __tablename__ = "stages"

    feed: Mapped[str] = mapped_column(primary_key=True)
    window_id: Mapped[str] = mapped_column(primary_key=True)
    stage: Mapped[str] = mapped_column(primary_key=True)
    # The Iceberg branch that has the snapshots.
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
    """How far the releases of a feed reach, which is where its next window begins."""

    __tablename__ = "positions"

    feed: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[Position]
    window_id: Mapped[str]
    updated_at: Mapped[datetime]
