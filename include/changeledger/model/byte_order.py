"""Which end of a change mask holds the first columns."""

from __future__ import annotations

from typing import Literal

# Of a change mask: which end of its bytes holds the first columns (see `masks`).
ByteOrder = Literal["big", "little"]
