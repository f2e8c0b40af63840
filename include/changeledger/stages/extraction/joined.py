"""Tables that join a feed, or rejoin it, and their earlier records that the feed has passed over.

Only messages can be passed over: a change table that joins is read from its beginning.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

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
    [
        ("window_id", "string"),
        ("disposition", "string"),
        ("reason", "string"),
        ("detail", "string"),
        (_RECORD, change.RECORD_TYPE),
    ]
)
# Position columns of a message, once `source_position` is flattened.
_PLACE = [f"{_RECORD}.{part}" for part in ("source", "partition", "offset")]
_PLACES = table_schema([(_RECORD, change.RECORD_TYPE)])
_MESSAGE = table_schema(
    [("topic", "string"), ("partition", "int"), ("offset", "bigint"), ("timestamp", "timestamp")]
)
_Records = TypeVar("_Records", pa.RecordBatch, pa.Table)


class _Lacking(NamedTuple):
    """Records that a table lacks: the windows that passed them over, their number, their earliest time."""

    windows: frozenset[str]
    records: int
    first: datetime | None


_NOTHING = _Lacking(frozenset(), 0, None)


def note(ctx: StageContext) -> None:
    """Saves each table that joins or rejoins the feed with the records that it lacks, and warns of these."""
    feed, control = ctx.feed.feed, ctx.control
    known, contracts = control.feed_tables.of_feed(feed), control.contracts.of_feed(feed)
    # An unpublished table that left the feed counts as new when it is listed again: no release would show
    # that it was left out meanwhile.
    unpublished = known.keys() - contracts.keys()
    control.feed_tables.forget(feed, [table for table in unpublished if ctx.whole.table(table) is None])
    new = [config.table for config in ctx.whole.tables if config.table not in known]
    joins = [table for table in new if table not in contracts]
    joins += [*known] if _is_taken_back(ctx) else _left_out(ctx, known.keys() & contracts.keys())
    joins = [table for table in joins if ctx.whole.table(table) is not None]
    passed_over = _passed_over(ctx, joins) if joins and ctx.released else _READ.empty_table()
    lacking = {table: _lacking(ctx, passed_over, table) for table in joins}
    for table in dict.fromkeys([*new, *joins]):
        windows, count, first = lacking.get(table, _NOTHING)
        if table in new or count != known[table].lacking:
            control.feed_tables.save(feed, table, count, windows, first)
    for row in control.feed_tables.lacking(feed, ctx.window):
        if row.table in joins:
            log.warning(
                "%s: %s is new to the feed and lacks %s, which the feed has passed over. To read them, "
                "trigger its DAG with the mode `window`, this table, start %s and end %s; or decline "
                "them: changeledger tables %s --decline %s --reason ...",
                *(feed, row.table, counted(row.lacking, "earlier change"), _iso(row.since), _iso(row.until)),
                *(feed, row.table),
            )


def _is_taken_back(ctx: StageContext) -> bool:
    """Returns whether the run follows a rollback to an earlier position.

    If so, dispositions are those of that time, and what was passed over since is read again.
    """
    releases = ctx.control.releases
    newest = releases.latest(ctx.feed.feed)
    if newest is None or not newest.is_rollback:
        return False
    rows = releases.of_feed(ctx.feed.feed)
    return any(row.id == newest.rolled_back_to and row.positions == newest.positions for row in rows)


def _left_out(ctx: StageContext, known: Container[str]) -> list[str]:
    """Returns the published tables that are not in the newest release: the feed did not list them then."""
    newest = ctx.control.releases.latest(ctx.feed.feed)
    released = {} if newest is None else newest.tables
    names = ctx.whole.names
    return [table for table in names if table in known and names[table].changes not in released]


def _passed_over(ctx: StageContext, tables: Sequence[str]) -> pa.Table:
    """Returns `_READ` of these tables' records that belonged to no table of the feed when they were read.

    `detail` is the table's name in the record. Filters batch by batch: there may be any number of records of
    tables that are not listed.
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


def _lacking(ctx: StageContext, passed_over: pa.Table, table: str) -> _Lacking:
    """Returns the records of the table that some windows have passed over and no window has read."""
    unread = _of_tables(passed_over, [table]).flatten()
    for read in _read(ctx, table) if len(unread) else ():
        unread = unread.join(read.flatten().select(_PLACE), _PLACE, join_type="left anti")
    places = unread.select(_PLACE).group_by(_PLACE).aggregate([])
    windows = frozenset(unread.column("window_id").to_pylist())
    return _Lacking(windows, len(places), _first_time(ctx, places) if len(places) else None)


def _first_time(ctx: StageContext, places: pa.Table) -> datetime | None:
    """Returns the earliest time of these messages, or None if raw has none of them any more.

    A message that came late to its topic has a time before the window that read it.
    """
    if not catalog.exists(ctx.lake.raw):
        return None
    topics = pc.unique(places.column(_PLACE[0])).to_pylist()
    times = [
        pc.min(
            pa.Table.from_batches([batch])
            .join(places, _MESSAGE.names[:3], _PLACE, join_type="left semi")
            .column("timestamp")
        ).as_py()
        for batch in scans.batches(ctx.lake.raw, conditions.is_among("topic", topics), _MESSAGE)
    ]
    return min((time for time in times if time is not None), default=None)


def _read(ctx: StageContext, table: str) -> Iterator[pa.Table]:
    """Yields positions of records that became changes of the table or have another disposition of it.

    Quarantined records count only if they are still in quarantine: otherwise they were passed over since.
    """
    ledger, dispositions = ctx.whole.names[table].changes, ctx.lake.dispositions
    for column in (_RECORD, f"paired_{_RECORD}") if catalog.exists(ledger) else ():
        for batch in scans.batches(ledger, AlwaysTrue(), table_schema([(column, change.RECORD_TYPE)])):
            yield pa.Table.from_batches([batch]).rename_columns([_RECORD])
    for batch in scans.batches(dispositions, conditions.is_equal("table", table), _READ):
        is_unread = pc.equal(batch.column("reason"), change.TABLE_NOT_IN_FEED).fill_null(False)
        is_unread = pc.or_(is_unread, pc.equal(batch.column("disposition"), change.QUARANTINED))
        yield pa.Table.from_batches([batch.filter(pc.invert(is_unread))])
    quarantine = ctx.lake.quarantine
    for batch in scans.batches(quarantine, AlwaysTrue(), _PLACES) if catalog.exists(quarantine) else ():
        yield pa.Table.from_batches([batch])


def _names(name: str, table: str) -> bool:
    """Returns whether a record with this `name` is the table's.

    A record may name its table without a schema, or only come from a topic that is named after it.
    """
    schema, table_name = table.lower().split(".", 1)
    named = name.lower()
    return named in (f"{schema}.{table_name}", table_name) or named.endswith(f".{schema}.{table_name}")


def _iso(moment: object) -> str:
    return "the beginning" if moment is None else str(moment).replace(" ", "T")
