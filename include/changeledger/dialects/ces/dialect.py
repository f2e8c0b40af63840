"""Change event streaming of SQL Server 2025."""

from __future__ import annotations

from changeledger.dialects.ces import kernel
from changeledger.dialects.interface import MessageDialect

CES = MessageDialect(kernel.CES)
