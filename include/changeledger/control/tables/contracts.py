"""Contracts, writer schemas and mask evidence of tables."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Integer
from sqlalchemy.orm import Mapped, mapped_column

from changeledger.control.tables.base import ControlTable
from changeledger.mask_order.decision import Evidence
from changeledger.model.window import Window


class ContractRow(ControlTable):
    """A version of a table's contract, and the window whose release brought it."""

    __tablename__ = "contracts"

    feed: Mapped[str] = mapped_column(primary_key=True)
    table: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[int] = mapped_column(Integer, primary_key=True)
    body: Mapped[dict[str, Any]] = mapped_column(JSON)
    window_id: Mapped[str]
    # The release, or the rollback that made an earlier version the newest again.
    release: Mapped[int] = mapped_column(Integer)
    created_at: Mapped[datetime]


class WriterSchemaRow(ControlTable):
    """The columns of a table as one of its writers reports them, by the id that its records name.

    The id is that of a capture instance, a metadata message or a registered schema, and is never reused.
    """

    __tablename__ = "writer_schemas"

    feed: Mapped[str] = mapped_column(primary_key=True)
    schema_id: Mapped[str] = mapped_column(primary_key=True)
    body: Mapped[dict[str, Any]] = mapped_column(JSON)
    window_id: Mapped[str]
    created_at: Mapped[datetime]


class AvroSchemaRow(ControlTable):
    """An Avro schema (JSON text) by the id that the feed's messages name; ids are never reused."""

    __tablename__ = "avro_schemas"

    feed: Mapped[str] = mapped_column(primary_key=True)
    schema_id: Mapped[str] = mapped_column(primary_key=True)
    body: Mapped[str]
    window_id: Mapped[str]
    created_at: Mapped[datetime]


class MaskEvidenceRow(ControlTable):
    """The evidence of a table's records for the byte order of its masks, and the order that they proved."""

    __tablename__ = "mask_evidence"

    feed: Mapped[str] = mapped_column(primary_key=True)
    table: Mapped[str] = mapped_column(primary_key=True)
    # {"earlier": Evidence, "last": Evidence}: the last window's is separate, since it may run again.
    counts: Mapped[dict[str, Any]] = mapped_column(JSON)
    # None: not proved. `why` explains what is known.
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
        """Returns the evidence of other windows, for judging `window`, which may have been judged before."""
        return self.earlier if window.id == self.last_window else self.total
