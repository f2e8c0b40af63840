"""Reads windows of messages as normalize does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from changeledger.cli.decode import reader
from changeledger.cli.decode.records import Message
from changeledger.config.feed import Feed
from changeledger.dialects.interface import MessageDialect
from changeledger.dialects.kernel import EarlierWindows
from changeledger.dialects.registry import DIALECTS
from changeledger.kernels.in_memory import InMemory
from changeledger.model.contract import Contract
from changeledger.stages.normalization import reading

NONE: Mapping[str, Contract] = MappingProxyType({})


def feed(dialect: str, *tables: Mapping[str, Any], database: str = "shop", **source: Any) -> Feed:
    return Feed.model_validate(
        {
            "feed": "f", "dialect": dialect, "database": database, "connection": "none",
            "source": {"topics": ["*"], **source}, "tables": tables,
        }
    )  # fmt: skip


def discovered(
    messages: Sequence[Message],
    of: Feed,
    contracts: Mapping[str, Contract] = NONE,
    schemas: Mapping[str, Contract] = NONE,
) -> reading.Discovered:
    """`contracts`, `schemas`: what earlier windows left."""
    dialect = DIALECTS[of.dialect]
    assert isinstance(dialect, MessageDialect)
    earlier = EarlierWindows(contracts, schemas, {})
    return reading.discovered(dialect.kernel, InMemory.of(reader._batch(messages)), of, earlier, "w")
