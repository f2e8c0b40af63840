"""Tables that join a feed, or join it again, and what it has read of them before and passed over.

That is of messages alone: of a change table that joins all is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue

from changeledger.kernels.arrow import table_schema
from changeledger.lake import catalog, conditions, scans
from changeledger.model import change
from changeledger.model.wording import counted
from changeledger.stages.common.context import StageContext, log

_RECORD = "source_position"
_READ = table_schema(
    [("window_id", "string"), ("reason", "string"), ("detail", "string"), (_RECORD, change.RECORD_TYPE)]
)
# Of a message, once the column is flattened.
_PLACE = [f"{_RECORD}.{part}" for part in ("source", "partition", "offset")]
_Records = TypeVar("_Records", pa.RecordBatch, pa.Table)


def note(ctx: StageContext) -> None:
    """Saves each table that the feed lists for the first time, or again, and what it lacks; warns of that."""
    feed, control = ctx.feed.feed, ctx.control
    known, contracts = control.feed_tables.of_feed(feed), control.contracts.of_feed(feed)
    new = [config.table for config in ctx.whole.tables if config.table not in known]
    joins = [table for table in new if table not in contracts]
    joins += _left_out(ctx, known.keys() & contracts.keys())
    passed_over = _passed_over(ctx, joins) if joins and ctx.released else _READ.empty_table()
    lacking = {table: _lacking(ctx, passed_over, table) for table in joins}
    for table in dict.fromkeys([*new, *joins]):
        windows = lacking.get(table, Counter())
        if table in new or windows.total() != known[table].lacking:
            control.feed_tables.save(feed, table, windows.total(), windows)
    for row in control.feed_tables.lacking(feed, ctx.window):
        if row.table in joins:
            log.warning(
                "%s: %s is new to the feed and lacks %s, which the feed has passed over. To read them, "
                "trigger its DAG with the mode `window`, this table, start %s and end %s; or decline "
                "them: changeledger tables %s --decline %s --reason ...",
                *(feed, row.table, counted(row.lacking, "earlier change"), _iso(row.since), _iso(row.until)),
                *(feed, row.table),
            )


def _left_out(ctx: StageContext, known: Container[str]) -> list[str]:
    """Tables that are published, but not by the newest release, which the feed made without them."""
    newest = ctx.control.releases.latest(ctx.feed.feed)
    released = {} if newest is None else newest.tables
    names = ctx.whole.names
    return [table for table in names if table in known and names[table].changes not in released]


def _passed_over(ctx: StageContext, tables: Sequence[str]) -> pa.Table:
    """`_READ` of these tables' records that were of no table of the feed; `detail` is how they name it.

    Of tables that nobody lists there may be any number: not all are here at once.
    """
    if not catalog.exists(ctx.lake.dispositions):
        return _READ.empty_table()
    of_no_table = conditions.is_equal("reason", change.TABLE_NOT_IN_FEED)
    batches = scans.batches(ctx.lake.dispositions, of_no_table, _READ)
    return pa.Table.from_batches([_of_tables(batch, tables) for batch in batches], _READ)


def _of_tables(records: _Records, tables: Sequence[str]) -> _Records:
    details = records.column("detail")
    names = [n for n in pc.unique(details).to_pylist() if any(_names(n or "", table) for table in tables)]
    return records.filter(pc.is_in(details, pa.array(names, pa.string())))


def _lacking(ctx: StageContext, passed_over: pa.Table, table: str) -> Counter[str]:
    """How many records of the table each window has passed over that none has read."""
    unread = _of_tables(passed_over, [table]).flatten()
    for read in _read(ctx, table) if len(unread) else ():
        unread = unread.join(read.flatten().select(_PLACE), _PLACE, join_type="left anti")
    return Counter(unread.column("window_id").to_pylist())


def _read(ctx: StageContext, table: str) -> Iterator[pa.Table]:
    """Where records stand that have become changes of the table, or something else of it."""
    ledger, dispositions = ctx.whole.names[table].changes, ctx.lake.dispositions
    for column in (_RECORD, f"paired_{_RECORD}") if catalog.exists(ledger) else ():
        for batch in scans.batches(ledger, AlwaysTrue(), table_schema([(column, change.RECORD_TYPE)])):
            yield pa.Table.from_batches([batch]).rename_columns([_RECORD])
    for batch in scans.batches(dispositions, conditions.is_equal("table", table), _READ):
        is_unread = pc.equal(batch.column("reason"), change.TABLE_NOT_IN_FEED).fill_null(False)
        yield pa.Table.from_batches([batch.filter(pc.invert(is_unread))])


def _names(name: str, table: str) -> bool:
    """Is it the table's? A record may name its table alone, or only be on a topic that is named after it."""
    schema, table_name = table.lower().split(".", 1)
    named = name.lower()
    return named in (f"{schema}.{table_name}", table_name) or named.endswith(f".{schema}.{table_name}")


def _iso(moment: object) -> str:
    return "the beginning" if moment is None else str(moment).replace(" ", "T")
