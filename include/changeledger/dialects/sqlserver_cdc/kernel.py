"""The dialect's functions."""

from __future__ import annotations

from changeledger.dialects.sqlserver_cdc.decode import decode
from changeledger.dialects.sqlserver_cdc.header import mask_rules, record
from changeledger.dialects.tables.interface import TableKernel

SQLSERVER_CDC = TableKernel("sqlserver_cdc", record, decode, mask_rules)
