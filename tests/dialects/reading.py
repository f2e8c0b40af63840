"""Reads a feed's messages as a run does: facts, discovery, a plan for each table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.config.feed import Feed
from changeledger.dialects.kernel import EarlierWindows, MessageKernel, ResolvedSchema
from changeledger.kernels.in_memory import InMemory
from changeledger.kernels.rows import as_batch
from changeledger.model.contract import Contract
from changeledger.stages.normalization import reading

NONE: Mapping[str, str] = MappingProxyType({})


def with_values(raw: pa.RecordBatch, values: Sequence[bytes | None]) -> pa.RecordBatch:
    at = raw.schema.get_field_index("value")
    return raw.set_column(at, raw.schema.field(at), pa.array(values, pa.binary()))


def records_of(kernel: MessageKernel, number: int, raw: pa.RecordBatch, discovery: Any) -> pa.RecordBatch:
    """Returns the messages of the discovered table `number`."""
    return raw.filter(pc.fill_null(pc.equal(kernel.routes(raw, discovery), number), fill_value=False))


def read(
    kernel: MessageKernel,
    raw: pa.RecordBatch,
    feed: Feed,
    contracts: Mapping[str, Contract],
    schemas: Mapping[str, str] = NONE,
    discovered: pa.RecordBatch | None = None,
) -> list[pa.RecordBatch]:
    """Decodes messages without a table, then those of each table. `discovered`: the whole window."""
    window_facts = kernel.facts(raw if discovered is None else discovered, schemas)
    discovery = kernel.discover(window_facts, feed, EarlierWindows(contracts, {}, schemas))
    others = raw.filter(kernel.routes(raw, discovery).is_null())
    batches = [kernel.decode_other(others, feed, discovery)]
    for number, table in enumerate(discovery.tables):
        contract = contracts.get(table.table) or table.writer_schema
        assert contract is not None, "neither the messages nor a contract have the columns"
        written = ResolvedSchema(table.writer_schema or contract)
        plan = kernel.plan(discovery, number, feed, written, contract, "window")
        batches.append(kernel.decode(records_of(kernel, number, raw, discovery), plan))
    return batches


def decoded(
    kernel: MessageKernel,
    raw: pa.RecordBatch,
    feed: Feed,
    stated: Contract | None = None,
    schemas: Mapping[str, str] = NONE,
) -> list[pa.RecordBatch]:
    """Decodes all messages of a window as a stage does. `stated`: the contract of its table."""
    known = EarlierWindows({stated.table: stated} if stated else {}, {}, schemas)
    window = reading.discovered(kernel, InMemory.of(raw), feed, known, "window")
    rows = [*window.others]
    for records in window.records:
        assert records.writer_schema is not None, "messages of these dialects have their columns"
        contract = known.contracts.get(records.table, records.writer_schema)
        rows.append(records.decoded(ResolvedSchema(records.writer_schema), contract))
    return [as_batch(decoded_rows.collected()) for decoded_rows in rows]
