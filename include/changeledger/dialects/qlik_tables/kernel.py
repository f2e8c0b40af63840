"""The dialect's functions."""

from __future__ import annotations

from changeledger.dialects.qlik_tables.decode import decode
from changeledger.dialects.qlik_tables.header import mask_rules, record
from changeledger.dialects.tables.interface import TableKernel

QLIK_TABLES = TableKernel("qlik_tables", record, decode, mask_rules)
