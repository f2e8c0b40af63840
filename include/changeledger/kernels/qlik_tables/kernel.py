"""The dialect's functions."""

from __future__ import annotations

from changeledger.kernels.qlik_tables.decode import decode
from changeledger.kernels.qlik_tables.header import mask_rules, record
from changeledger.kernels.tables.interface import TableKernel

QLIK_TABLES = TableKernel("qlik_tables", record, decode, mask_rules)
