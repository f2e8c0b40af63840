"""A window of CES messages through its kernels, as a stage calls them."""

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
    """All records of a window. `stated`: the contract of its table."""
    segments = pc.equal(routes(raw, Discovery([])), SEGMENT)
    events, left = joined(raw.filter(pc.fill_null(segments, False)))
    plan = discover(merged([facts(raw, {}), facts(events, {})]), feed, EarlierWindows(known, {}, {}))
    found = [left]
    for batch in (raw.filter(pc.invert(pc.fill_null(segments, False))), events):
        route = routes(batch, plan)
        found.append(decode_other(batch.filter(route.is_null()), feed, plan))
        for number, one in enumerate(plan.tables):
            contract = stated if stated and stated.table == one.table else one.writer_schema
            records = batch.filter(pc.fill_null(pc.equal(route, number), False))
            found.append(decode(records, TablePlan(feed, one.writer_schema, contract, "window")))
    return found
