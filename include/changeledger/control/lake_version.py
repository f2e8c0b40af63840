"""The version of the lake that a control store belongs to."""

from __future__ import annotations

from typing import Final

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from changeledger.control.tables.lake import LakeRow
from changeledger.model.errors import ConfigError

# The names of tables and columns that this program reads and writes.
LAKE_VERSION: Final = 2


def stored_version(session: Session) -> int:
    return session.scalars(select(LakeRow.version)).one()


def require_version(session: Session) -> None:
    """Raises ConfigError where the lake has the names of an earlier version."""
    if stored_version(session) < LAKE_VERSION:
        raise ConfigError(
            "the lake was written by an earlier version: its tables and columns have other names",
            "stop the DAGs, back up the lake and the control store, then run `changeledger migrate` "
            "(docs/maintenance.md, 'Upgrading')",
        )


def set_version(session: Session) -> None:
    session.execute(update(LakeRow).values(version=LAKE_VERSION))
