"""A feed's messages read as a run reads them: facts, a survey, a plan for each table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.config.feed import Feed
from changeledger.dialects.kernel import Known, MessageKernel, Written
from changeledger.model.contract import Contract

NONE: Mapping[str, str] = MappingProxyType({})


def with_values(raw: pa.RecordBatch, values: Sequence[bytes | None]) -> pa.RecordBatch:
    at = raw.schema.get_field_index("value")
    return raw.set_column(at, raw.schema.field(at), pa.array(values, pa.binary()))


def records_of(kernel: MessageKernel, number: int, raw: pa.RecordBatch, survey: Any) -> pa.RecordBatch:
    """The messages of one of a survey's tables."""
    return raw.filter(pc.fill_null(pc.equal(kernel.routes(raw, survey), number), fill_value=False))


def read(
    kernel: MessageKernel,
    raw: pa.RecordBatch,
    feed: Feed,
    contracts: Mapping[str, Contract],
    schemas: Mapping[str, str] = NONE,
    surveyed: pa.RecordBatch | None = None,
) -> list[pa.RecordBatch]:
    """Decoded batches: of messages of no table, then of each table. `surveyed`: all of the window."""
    found = kernel.facts(raw if surveyed is None else surveyed, schemas)
    survey = kernel.survey(found, feed, Known(contracts, {}, schemas))
    others = raw.filter(kernel.routes(raw, survey).is_null())
    batches = [kernel.decode_other(others, feed, survey)]
    for number, one in enumerate(survey.tables):
        contract = contracts.get(one.table) or one.writer_schema
        assert contract is not None, "neither the messages nor a contract have the columns"
        plan = kernel.plan(survey, number, feed, Written(one.writer_schema or contract), contract, "window")
        batches.append(kernel.decode(records_of(kernel, number, raw, survey), plan))
    return batches
