"""Qlik Replicate on Kafka."""

from __future__ import annotations

from changeledger.dialects.interface import MessageDialect
from changeledger.dialects.qlik_messages import kernel

QLIK_MESSAGES = MessageDialect(kernel.QLIK_MESSAGES)
