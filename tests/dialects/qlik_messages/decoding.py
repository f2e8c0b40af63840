"""Decodes a window of Qlik's messages as a stage does."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.config.feed import Feed
from changeledger.dialects.kernel import EarlierWindows
from changeledger.dialects.plan import TablePlan
from changeledger.dialects.qlik_messages.avro import schemas_in
from changeledger.dialects.qlik_messages.decode import decode
from changeledger.dialects.qlik_messages.discovery import discover, facts, merged, routes
from changeledger.dialects.qlik_messages.other_messages import decode_other
from changeledger.model.contract import Contract


def decoded(
    raw: pa.RecordBatch,
    feed: Feed,
    known: Mapping[str, Contract],
    stated: Contract | None = None,
    registry: Mapping[str, str] = MappingProxyType({}),
) -> list[pa.RecordBatch]:
    """Decodes all records of a window. `stated`: the table's contract. `registry`: Avro schemas by id."""
    schemas = {**schemas_in(raw.column("value").to_pylist()), **registry}
    plan = discover(merged([facts(raw, schemas)]), feed, EarlierWindows(known, {}, schemas))
    route = routes(raw, plan)
    batches = [decode_other(raw.filter(route.is_null()), feed, plan)]
    for number, table in enumerate(plan.tables):
        contract = stated if stated and stated.table == table.table else table.writer_schema
        records = raw.filter(pc.fill_null(pc.equal(route, number), False))
        table_plan = TablePlan(feed, table.writer_schema, contract, "window", None, tuple(schemas.items()))
        batches.append(decode(records, table_plan))
    return batches
