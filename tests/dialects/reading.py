"""A feed's messages read as a run reads them: facts, a discovery, a plan for each table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.config.feed import Feed
from changeledger.dialects.kernel import EarlierWindows, MessageKernel, ResolvedSchema
from changeledger.model.contract import Contract

NONE: Mapping[str, str] = MappingProxyType({})


def with_values(raw: pa.RecordBatch, values: Sequence[bytes | None]) -> pa.RecordBatch:
    at = raw.schema.get_field_index("value")
    return raw.set_column(at, raw.schema.field(at), pa.array(values, pa.binary()))


def records_of(kernel: MessageKernel, number: int, raw: pa.RecordBatch, discovery: Any) -> pa.RecordBatch:
    """The messages of one of a discovery's tables."""
    return raw.filter(pc.fill_null(pc.equal(kernel.routes(raw, discovery), number), fill_value=False))


def read(
    kernel: MessageKernel,
    raw: pa.RecordBatch,
    feed: Feed,
    contracts: Mapping[str, Contract],
    schemas: Mapping[str, str] = NONE,
    discovered: pa.RecordBatch | None = None,
) -> list[pa.RecordBatch]:
    """Decoded batches: of messages of no table, then of each table. `discovered`: all of the window."""
    found = kernel.facts(raw if discovered is None else discovered, schemas)
    discovery = kernel.discover(found, feed, EarlierWindows(contracts, {}, schemas))
    others = raw.filter(kernel.routes(raw, discovery).is_null())
    batches = [kernel.decode_other(others, feed, discovery)]
    for number, one in enumerate(discovery.tables):
        contract = contracts.get(one.table) or one.writer_schema
        assert contract is not None, "neither the messages nor a contract have the columns"
        written = ResolvedSchema(one.writer_schema or contract)
        plan = kernel.plan(discovery, number, feed, written, contract, "window")
        batches.append(kernel.decode(records_of(kernel, number, raw, discovery), plan))
    return batches
