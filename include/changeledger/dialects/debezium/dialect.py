"""Debezium's connectors."""

from __future__ import annotations

from changeledger.dialects.debezium import kernel
from changeledger.dialects.debezium.schema_block import named_columns
from changeledger.dialects.interface import MessageDialect

DEBEZIUM = MessageDialect(kernel.DEBEZIUM, named_columns=named_columns)
