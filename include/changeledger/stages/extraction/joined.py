"""Tables that join a feed, and what it has read of them before and passed over.

That is of messages alone: of a change table that joins all is read.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import pyarrow as pa

from changeledger.lake import catalog, conditions, scans
from changeledger.model import change
from changeledger.model.wording import counted
from changeledger.stages.common.context import StageContext, log

_READ = pa.schema([("window_id", pa.string()), ("detail", pa.string())])


def note(ctx: StageContext) -> None:
    """Saves each table that the feed lists for the first time, and what it lacks; a warning says so."""
    feed, control = ctx.feed.feed, ctx.control
    known = control.feed_tables.of_feed(feed)
    new = [config.table for config in ctx.whole.tables if config.table not in known]
    if not new:
        return
    contracts = control.contracts.of_feed(feed)
    joins = [table for table in new if table not in contracts]
    passed_over = _passed_over(ctx) if joins and ctx.released else {}
    for table in new:
        windows = _of_table(passed_over, table) if table in joins else Counter()
        control.feed_tables.save(feed, table, windows.total(), windows)
    for row in control.feed_tables.lacking(feed, ctx.window):
        if row.table in new:
            log.warning(
                "%s: %s is new to the feed and lacks %s, which the feed has passed over. To read them, "
                "trigger its DAG with the mode `window`, this table, start %s and end %s; or decline "
                "them: changeledger tables %s --decline %s --reason ...",
                *(feed, row.table, counted(row.lacking, "earlier change"), _iso(row.since), _iso(row.until)),
                *(feed, row.table),
            )


def _passed_over(ctx: StageContext) -> dict[str, Counter[str]]:
    """By table, as records name it in lower case: how many of its changes each window has passed over."""
    if not catalog.exists(ctx.lake.dispositions):
        return {}
    rows = scans.read(ctx.lake.dispositions, conditions.is_equal("reason", change.TABLE_NOT_IN_FEED), _READ)
    counted = rows.group_by(_READ.names).aggregate([([], "count_all")]).to_pylist()
    tables: dict[str, Counter[str]] = defaultdict(Counter)
    for row in counted:
        tables[(row["detail"] or "").lower()][row["window_id"]] += row["count_all"]
    return tables


def _of_table(passed_over: dict[str, Counter[str]], table: str) -> Counter[str]:
    """A record may name its table alone, or only be on a topic that is named after the table."""
    schema, name = table.lower().split(".", 1)
    total: Counter[str] = Counter()
    for named, windows in passed_over.items():
        if named in (f"{schema}.{name}", name) or named.endswith(f".{schema}.{name}"):
            total += windows
    return total


def _iso(moment: object) -> str:
    return "the beginning" if moment is None else str(moment).replace(" ", "T")
