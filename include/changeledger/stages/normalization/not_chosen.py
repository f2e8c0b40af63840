"""Changes of the feed's other tables in a run that reads some tables again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.rows import Rows
from changeledger.model import change
from changeledger.stages.common.context import StageContext


def named(ctx: StageContext, others: Rows) -> Rows:
    """Decoded records of no table of the run; those of the feed's other tables say that nobody asked."""
    if not ctx.window.request.partial:
        return others
    tables = [config.table.lower() for config in ctx.whole.tables if config not in ctx.feed.tables]
    return others.through(partial(_named, tables=tables), others.schema)


def _named(rows: pa.RecordBatch, tables: Sequence[str]) -> pa.RecordBatch:
    is_other = pc.and_(
        pc.equal(rows.column("reason"), change.TABLE_NOT_IN_FEED),
        pc.is_in(pc.utf8_lower(rows.column("detail")), pa.array(tables, pa.string())),
    )
    reason = pc.if_else(is_other.fill_null(False), change.TABLE_NOT_CHOSEN, rows.column("reason"))
    return rows.set_column(rows.schema.get_field_index("reason"), rows.schema.field("reason"), reason)
