"""Base class, types and leases of the control store's tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, DateTime, Dialect, Integer, MetaData, String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator

# A position in a feed's source: {"lsn": "<20 hex>"} or {"<topic>": {"<partition>": next offset}}.
Position = dict[str, Any]


class UtcDateTime(TypeDecorator[datetime]):
    """A time in UTC. SQLite does not store zones, so they are added on reading."""

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


class LeaseRow(ControlTable):
    """The lease of a feed, or of work on a database. The lake's MERGEs need a single writer per table."""

    __tablename__ = "leases"

    feed: Mapped[str] = mapped_column(primary_key=True)
    holder: Mapped[str]
    # Grows whenever another process takes the lease; `process` is the one that has it.
    token: Mapped[int] = mapped_column(Integer)
    process: Mapped[str]
    expires_at: Mapped[datetime]
