"""Change event streaming of SQL Server 2025."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from changeledger.config.feed import Feed
from changeledger.dialects.ces import discovery, split
from changeledger.dialects.ces.decode import decode
from changeledger.dialects.ces.other_messages import decode_other
from changeledger.dialects.interface import MessageDialect
from changeledger.dialects.kernel import EarlierWindows, MessageKernel, ResolvedSchema, Segments
from changeledger.dialects.plan import TablePlan
from changeledger.model.contract import Contract


def _facts(raw: pa.RecordBatch, _avro_schemas: Mapping[str, str]) -> pa.RecordBatch:
    return discovery.facts(raw)


def _discover(window_facts: pa.RecordBatch, feed: Feed, known: EarlierWindows) -> discovery.Discovery:
    return discovery.discover(window_facts, feed, known.contracts)


def _plan(
    _discovered: discovery.Discovery,
    _number: int,
    feed: Feed,
    resolved: ResolvedSchema,
    contract: Contract,
    window_id: str,
) -> TablePlan:
    return TablePlan(feed, resolved.writer_schema, contract, window_id)


CES = MessageDialect(
    MessageKernel(
        "ces",
        discovery.FACTS,
        _facts,
        discovery.merged,
        _discover,
        discovery.routes,
        _plan,
        decode,
        decode_other,
        segments=Segments(
            discovery.has_segments, split.keyed, split.KEYED, split.joined, split.JOINED, discovery.SEGMENT
        ),
    )
)
