"""Qlik Replicate on Kafka."""

from __future__ import annotations

from changeledger.dialects.base import MessageDialect
from changeledger.kernels.qlik_messages import kernel

QLIK_MESSAGES = MessageDialect(kernel.QLIK_MESSAGES)
