"""Change event streaming of SQL Server 2025."""

from __future__ import annotations

from changeledger.dialects.base import MessageDialect
from changeledger.kernels.ces import kernel

CES = MessageDialect(kernel.CES)
