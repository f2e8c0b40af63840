"""Decodes a window of CES messages as a stage does."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.config.feed import Feed
from changeledger.dialects.ces.decode import decode
from changeledger.dialects.ces.discovery import SEGMENT, Discovery, discover, facts, merged, routes
from changeledger.dialects.ces.other_messages import decode_other
from changeledger.dialects.ces.split import joined
from changeledger.dialects.kernel import EarlierWindows
from changeledger.dialects.plan import TablePlan
from changeledger.model.contract import Contract


def decoded(
    raw: pa.RecordBatch, feed: Feed, known: Mapping[str, Contract], stated: Contract | None = None
) -> list[pa.RecordBatch]:
    """Decodes all records of a window. `stated`: the contract of its table."""
    segments = pc.equal(routes(raw, Discovery([])), SEGMENT)
    events, segment_rows = joined(raw.filter(pc.fill_null(segments, False)))
    plan = discover(merged([facts(raw, {}), facts(events, {})]), feed, EarlierWindows(known, {}, {}))
    batches = [segment_rows]
    for batch in (raw.filter(pc.invert(pc.fill_null(segments, False))), events):
        route = routes(batch, plan)
        batches.append(decode_other(batch.filter(route.is_null()), feed, plan))
        for number, table in enumerate(plan.tables):
            contract = stated if stated and stated.table == table.table else table.writer_schema
            records = batch.filter(pc.fill_null(pc.equal(route, number), False))
            batches.append(decode(records, TablePlan(feed, table.writer_schema, contract, "window")))
    return batches
