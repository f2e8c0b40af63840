"""The tables of the control store. Rows are handed out detached: they hold what was read, no more."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, Integer, MetaData, String, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator

from changeledger.mask_order import Evidence
from changeledger.window import Request, Window

# Where a feed's source stands: {"lsn": "<20 hex>"} or {"<topic>": {"<partition>": next offset}}.
Position = dict[str, Any]


class UtcDateTime(TypeDecorator[datetime]):
    """A moment, always in UTC: SQLite forgets zones, so they are put back on reading."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class ControlTable(DeclarativeBase):
    metadata = MetaData(
        naming_convention={"pk": "pk_%(table_name)s", "uq": "uq_%(table_name)s_%(column_0_N_name)s"}
    )
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy's own protocol
        datetime: UtcDateTime,
        str: String,
        Position: JSON(none_as_null=True),
    }


class WindowRow(ControlTable):
    """What one run reads: `[start, end)` in time, resolved once into source positions."""

    __tablename__ = "windows"

    feed: Mapped[str] = mapped_column(primary_key=True)
    window_id: Mapped[str] = mapped_column(primary_key=True)
    start: Mapped[datetime]
    end: Mapped[datetime]
    # None: the feed's first window, read from the source's beginning.
    from_position: Mapped[Position | None]
    to_position: Mapped[Position]
    # `open`, then `released`, or `empty`: it had nothing new, and the feed's position moved to its end.
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
    def done(self) -> bool:
        """Is there nothing left to do for it?"""
        return self.status in {"released", "empty"}

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
    def built(self) -> Built:
        return Built(self.branch, self.tables)


class ReadRow(ControlTable):
    """One source of a window (a topic's partition, a change table): is it in raw as the source has it?"""

    __tablename__ = "reads"

    feed: Mapped[str] = mapped_column(primary_key=True)
    window_id: Mapped[str] = mapped_column(primary_key=True)
    # `topic[partition]`, or the change table's name.
    source: Mapped[str] = mapped_column(primary_key=True)
    # Offsets, or rows that the source counts, once the raw rows were written.
    asked: Mapped[int] = mapped_column(BigInteger)
    # Raw rows.
    received: Mapped[int] = mapped_column(BigInteger)
    # Offsets that were removed before the feed has first read the partition.
    before: Mapped[int] = mapped_column(BigInteger)
    # Why raw is not what was asked for; None where it is.
    problem: Mapped[str | None]


class SourceMarkRow(ControlTable):
    """By what a partition is known again: its topic's id, and the last record that was read of it."""

    __tablename__ = "source_marks"

    feed: Mapped[str] = mapped_column(primary_key=True)
    source: Mapped[str] = mapped_column(primary_key=True)
    # The topic's id; empty where the broker has none.
    identity: Mapped[str]
    # The offset behind the record, and a hash of it; None where none stands there (a transaction's mark).
    place: Mapped[int] = mapped_column(BigInteger)
    fingerprint: Mapped[str | None]


class SourceLookRow(ControlTable):
    """What extract has last seen at a source: see `looks.SourceLook`."""

    __tablename__ = "source_looks"

    feed: Mapped[str] = mapped_column(primary_key=True)
    source: Mapped[str] = mapped_column(primary_key=True)
    read: Mapped[str]
    end: Mapped[str]
    behind: Mapped[int | None] = mapped_column(BigInteger)
    since: Mapped[datetime | None]
    newest: Mapped[datetime | None]
    why: Mapped[str | None]
    at: Mapped[datetime]


class Built(NamedTuple):
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


class ContractRow(ControlTable):
    """A version of a table's contract, and the window whose release brought it."""

    __tablename__ = "contracts"

    feed: Mapped[str] = mapped_column(primary_key=True)
    table: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[int] = mapped_column(Integer, primary_key=True)
    body: Mapped[dict[str, Any]] = mapped_column(JSON)
    window_id: Mapped[str]
    created_at: Mapped[datetime]


class ShapeRow(ControlTable):
    """The columns of a table as one of its writers tells them, by the id that its records name.

    A capture instance, a metadata message or a registered schema; ids are never used again for another.
    """

    __tablename__ = "shapes"

    feed: Mapped[str] = mapped_column(primary_key=True)
    shape_id: Mapped[str] = mapped_column(primary_key=True)
    body: Mapped[dict[str, Any]] = mapped_column(JSON)
    window_id: Mapped[str]
    created_at: Mapped[datetime]


class WriterSchemaRow(ControlTable):
    """An Avro schema (JSON text) by the id that the feed's messages name; ids are never used again."""

    __tablename__ = "writer_schemas"

    feed: Mapped[str] = mapped_column(primary_key=True)
    schema_id: Mapped[str] = mapped_column(primary_key=True)
    body: Mapped[str]
    window_id: Mapped[str]
    created_at: Mapped[datetime]


class MaskEvidenceRow(ControlTable):
    """What a table's records said of the byte order of its masks, and the order that they proved."""

    __tablename__ = "mask_evidence"

    feed: Mapped[str] = mapped_column(primary_key=True)
    table: Mapped[str] = mapped_column(primary_key=True)
    # {"earlier": Evidence, "last": Evidence}: the last window's is apart, for it may run again.
    counts: Mapped[dict[str, Any]] = mapped_column(JSON)
    # None: not proved. `why` says what is known, in words.
    mask_order: Mapped[str | None]
    why: Mapped[str]
    first_window: Mapped[str]
    last_window: Mapped[str]
    updated_at: Mapped[datetime]

    @property
    def earlier(self) -> Evidence:
        return Evidence.model_validate(self.counts["earlier"])

    @property
    def last(self) -> Evidence:
        return Evidence.model_validate(self.counts["last"])

    @property
    def total(self) -> Evidence:
        return self.last + self.earlier

    def without(self, window: Window) -> Evidence:
        """What the other windows say, where `window` is about to be judged, once more perhaps."""
        return self.earlier if window.id == self.last_window else self.total


class ReleaseRow(ControlTable):
    """The table snapshots that one run published together.

    The row is the commit point of a run; `committed` becomes `completed` once every table's main
    branch was moved and tagged.
    """

    __tablename__ = "releases"
    __table_args__ = (UniqueConstraint("feed", "window_id"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    feed: Mapped[str]
    window_id: Mapped[str]
    status: Mapped[str]
    # Table identifier -> snapshot id; JSON in Python and in both databases keeps all 64 bits.
    tables: Mapped[dict[str, int]] = mapped_column(JSON)
    counts: Mapped[dict[str, Any]] = mapped_column(JSON)
    positions: Mapped[Position]
    created_at: Mapped[datetime]
    completed_at: Mapped[datetime | None]

    @property
    def completed(self) -> bool:
        return self.status == "completed"


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


class ComparisonRow(ControlTable):
    """What came of comparing one table of two feeds over `[from_lsn, to_lsn)`.

    Where one of the feeds knows no LSN, both are NULL, and the commit times say what was compared.
    """

    __tablename__ = "comparisons"

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
    # agree, warn or differ.
    outcome: Mapped[str]
    # Effects by verdict, and by class of the legitimate ones.
    counts: Mapped[dict[str, Any]] = mapped_column(JSON)
    # By column: {"differs": n, "representation": n, "not_sent": n}, of those with any.
    columns: Mapped[dict[str, Any]] = mapped_column(JSON)
    # Of equal spans of the time: [agreeing effects, all effects].
    spans: Mapped[list[Any]] = mapped_column(JSON)
    # kernels.compare.positions.Positions.as_json; NULL where one of the feeds knows no LSN.
    positions: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    at: Mapped[datetime]


class SnapshotRow(ControlTable):
    """Tables of a source as they were read between two moments, kept in the lake until all is proved."""

    __tablename__ = "snapshots"

    id: Mapped[str] = mapped_column(primary_key=True)
    database: Mapped[str]
    # By the source's own clock, before the first table was read and after the last.
    since: Mapped[datetime]
    until: Mapped[datetime]
    # The highest LSN that the source had captured then, 20 hex digits; NULL where it tells none.
    since_lsn: Mapped[str | None]
    until_lsn: Mapped[str | None]
    # By table: {"name": the lake's table, "snapshot": its snapshot, "contract": Contract}.
    tables: Mapped[dict[str, Any]] = mapped_column(JSON)
    at: Mapped[datetime]


class ProofRow(ControlTable):
    """What came of holding one table of a feed against a snapshot of its source.

    `against`: "source", whose rows were read, or "topic": the feed's own tells rows again.
    """

    __tablename__ = "proofs"

    id: Mapped[str] = mapped_column(primary_key=True)
    against: Mapped[str]
    # The SnapshotRow; of a topic, the release that has the rows.
    snapshot_id: Mapped[str]
    database: Mapped[str]
    table: Mapped[str]
    feed: Mapped[str]
    # The release that was looked at.
    release: Mapped[int] = mapped_column(Integer)
    # proven, drift or waiting.
    outcome: Mapped[str]
    # The fence, as in the snapshot; of a topic, when the release was made.
    since: Mapped[datetime]
    until: Mapped[datetime]
    since_lsn: Mapped[str | None]
    until_lsn: Mapped[str | None]
    counts: Mapped[dict[str, int]] = mapped_column(JSON)
    at: Mapped[datetime]


class ErasureRow(ControlTable):
    """That a key was erased from a feed's tables: when, by whom, how many rows of each table of the lake."""

    __tablename__ = "erasures"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    feed: Mapped[str]
    table: Mapped[str]
    # SHA-256 of JSON: [table, [[column, value], ...]]. Not the key: it may be a person's.
    key_hash: Mapped[str]
    by: Mapped[str]
    counts: Mapped[dict[str, int]] = mapped_column(JSON)
    at: Mapped[datetime]


class LeaseRow(ControlTable):
    """Who works on a feed: one writer per table is what the lake's MERGEs need to be right."""

    __tablename__ = "leases"

    feed: Mapped[str] = mapped_column(primary_key=True)
    holder: Mapped[str]
    # Grows whenever another process takes the lease; `process` is the one that has it.
    token: Mapped[int] = mapped_column(Integer)
    process: Mapped[str]
    expires_at: Mapped[datetime]
