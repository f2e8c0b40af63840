"""Audits, releases and erasures."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Index, Integer
from sqlalchemy.orm import Mapped, mapped_column

from changeledger.control.tables.base import ControlTable, Position


class ReleaseRow(ControlTable):
    """The table snapshots that one run published together, or that a rollback made main again.

    The row is the commit point of a run or rollback. Its status `committed` becomes `completed` once every
    table is tagged and its main moved.
    """

    __tablename__ = "releases"
    __table_args__ = (Index("ix_releases_created", "feed", "created_at"),)

    feed: Mapped[str] = mapped_column(primary_key=True)
    # Numbered by feed, from 1.
    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    # For a rollback: the window of the release whose snapshots it has.
    window_id: Mapped[str]
    status: Mapped[str]
    # Number of changes of all tables; 0 for a rollback.
    changes: Mapped[int] = mapped_column(BigInteger)
    # kernels.lateness.Committed of the changes; NULL if no change tells how late it is.
    committed: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    # Table identifier -> snapshot id; JSON in Python and in both databases keeps all 64 bits.
    tables: Mapped[dict[str, int]] = mapped_column(JSON)
    counts: Mapped[dict[str, Any]] = mapped_column(JSON)
    positions: Mapped[Position]
    created_at: Mapped[datetime]
    completed_at: Mapped[datetime | None]
    # By table, how many changes it lacked that the run has read again.
    read_again: Mapped[dict[str, int] | None] = mapped_column(JSON(none_as_null=True))
    # For a rollback: the release whose snapshots it has, why, and by whom.
    rolled_back_to: Mapped[int | None] = mapped_column(Integer)
    reason: Mapped[str | None]
    by: Mapped[str | None]

    @property
    def completed(self) -> bool:
        return self.status == "completed"

    @property
    def is_rollback(self) -> bool:
        return self.rolled_back_to is not None


class AuditRow(ControlTable):
    """The verdict of one rule on one table of a window."""

    __tablename__ = "audits"

    feed: Mapped[str] = mapped_column(primary_key=True)
    window_id: Mapped[str] = mapped_column(primary_key=True)
    table: Mapped[str] = mapped_column(primary_key=True)
    rule: Mapped[str] = mapped_column(primary_key=True)
    success: Mapped[bool]
    violations: Mapped[int] = mapped_column(BigInteger)
    detail: Mapped[dict[str, Any]] = mapped_column(JSON)
    at: Mapped[datetime]

    @property
    def summary(self) -> str:
        """Table, rule, and how many rows violate it."""
        extent = "not checked" if self.detail.get("error") else self.violations
        return f"{self.table}: {self.rule} ({extent})"


class ErasureRow(ControlTable):
    """The erasure of a key from a feed's tables. `counts`: erased rows by lake table."""

    __tablename__ = "erasures"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    feed: Mapped[str]
    table: Mapped[str]
    # SHA-256 of JSON: [table, [[column, value], ...]]. The key itself is not stored: it may be a person's.
    key_hash: Mapped[str]
    by: Mapped[str]
    counts: Mapped[dict[str, int]] = mapped_column(JSON)
    at: Mapped[datetime]
