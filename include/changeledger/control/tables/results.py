"""Comparisons, snapshots of sources, and proofs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Index, Integer
from sqlalchemy.orm import Mapped, mapped_column

from changeledger.control.tables.base import ControlTable

# Outcomes of a comparison, the mildest first. A disagreement stays `differ` until a later comparison covers
# its part of the log, or a person accepts it.
AGREE, WARN, ACCEPTED, DIFFER = "agree", "warn", "accepted", "differ"


class ComparisonRow(ControlTable):
    """The result of comparing one table of two feeds over `[from_lsn, to_lsn)`.

    If one of the feeds has no LSNs, both ends are NULL, and the commit times say what was compared.
    """

    __tablename__ = "comparisons"
    __table_args__ = (
        # For the last comparison of each table of two feeds (`control.newest`), and open disagreements.
        Index("ix_comparisons_newest", "database", "reference", "feed", "table", "at", "id"),
        Index("ix_comparisons_outcome", "database", "outcome"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    database: Mapped[str]
    table: Mapped[str]
    reference: Mapped[str]
    feed: Mapped[str]
    # 20 hex digits.
    from_lsn: Mapped[str | None]
    to_lsn: Mapped[str | None]
    from_time: Mapped[datetime | None]
    to_time: Mapped[datetime | None]
    # agree, warn, accepted or differ.
    outcome: Mapped[str]
    # Why a disagreement was accepted, and by whom.
    accepted_reason: Mapped[str | None]
    accepted_by: Mapped[str | None]
    # Numbers of effects by verdict, and of expected ones by class.
    counts: Mapped[dict[str, Any]] = mapped_column(JSON)
    # By column that has any: {"differs": n, "representation": n, "not_captured": n}; or
    # {"not_compared": why}.
    columns: Mapped[dict[str, Any]] = mapped_column(JSON)
    # [agreeing effects, all effects] for each of equal spans of the time.
    spans: Mapped[list[Any]] = mapped_column(JSON)
    # compare.positions.Positions.as_json; NULL if one of the feeds has no LSNs.
    positions: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    at: Mapped[datetime]


class SnapshotRow(ControlTable):
    """Tables of a source as they were read between two moments, kept in the lake until all is proved."""

    __tablename__ = "snapshots"

    id: Mapped[str] = mapped_column(primary_key=True)
    database: Mapped[str]
    # By the source's own clock, before the first table was read and after the last one.
    since: Mapped[datetime]
    until: Mapped[datetime]
    # The highest LSN that the source had captured at `since` and `until`, 20 hex digits; NULL if it has none.
    since_lsn: Mapped[str | None]
    until_lsn: Mapped[str | None]
    # By lower-case table name: {"name": the lake's table, "snapshot": its snapshot, "contract": Contract}.
    tables: Mapped[dict[str, Any]] = mapped_column(JSON)
    at: Mapped[datetime]


class ProofRow(ControlTable):
    """The result of comparing one table of a feed with a snapshot of its source.

    `against`: "source", whose rows were read, or "topic", which is the feed's own and delivered rows again.
    """

    __tablename__ = "proofs"
    __table_args__ = (Index("ix_proofs_newest", "database", "feed", "table", "against", "at", "id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    against: Mapped[str]
    # The SnapshotRow; for a topic, the release that has the rows.
    snapshot_id: Mapped[str]
    database: Mapped[str]
    table: Mapped[str]
    feed: Mapped[str]
    # The release that was proved.
    release: Mapped[int] = mapped_column(Integer)
    # proven, drift or waiting.
    outcome: Mapped[str]
    # The fence, as in the snapshot; for a topic, when the release was made.
    since: Mapped[datetime]
    until: Mapped[datetime]
    since_lsn: Mapped[str | None]
    until_lsn: Mapped[str | None]
    counts: Mapped[dict[str, int]] = mapped_column(JSON)
    at: Mapped[datetime]
