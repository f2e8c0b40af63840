"""Which version's names the lake has."""

from __future__ import annotations

from sqlalchemy import Integer
from sqlalchemy.orm import Mapped, mapped_column

from changeledger.control.tables.base import ControlTable


class LakeRow(ControlTable):
    """One row. `version`: 1 is what version 0.1 has written, 2 has the names of 0.2."""

    __tablename__ = "lake"

    version: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
