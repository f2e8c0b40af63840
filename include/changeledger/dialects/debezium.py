"""Debezium's connectors."""

from __future__ import annotations

from changeledger.dialects.base import MessageDialect
from changeledger.kernels.debezium import kernel
from changeledger.kernels.debezium.schema_block import named_columns

DEBEZIUM = MessageDialect(kernel.DEBEZIUM, named_columns=named_columns)
