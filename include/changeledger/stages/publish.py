"""Publish: publishes every table of the run, or none.

The release row in the control store is the commit point. Moving and tagging each table follows, and can be
repeated at any time: after a crash, the next run completes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import pyarrow as pa

from changeledger.control import Position, furthest
from changeledger.kernels import lateness, loads, log_end
from changeledger.kernels.arrow import table_schema
from changeledger.kernels.rows import tallied
from changeledger.lake import refs, scans
from changeledger.lake.publishing import complete, pointer_of, require_mains
from changeledger.lake.refs import release_tag
from changeledger.model import change
from changeledger.model.errors import StageOrderError
from changeledger.model.table_names import TableNames
from changeledger.stages.common import arrivals, input_records
from changeledger.stages.common.context import StageContext, log
from changeledger.stages.common.frame import stage
from changeledger.stages.extraction.same_sources import DIALECT

_OF_CHANGES: Final = table_schema(
    [(name, kind) for name, kind in change.LEDGER_COLUMNS if name in log_end.READ]
)
_OF_DISPOSITIONS: Final = table_schema([("disposition", "string"), ("reason", "string")])


@stage
def run(ctx: StageContext) -> None:
    """Publishes exactly the snapshots that the audit has judged.

    Raises StageOrderError for a dry run or if the window's audit has not passed, and ReleaseStuck if somebody
    else has written a published table.
    """
    feed, window = ctx.feed.feed, ctx.window
    if window.request.dry_run:
        raise StageOrderError(f"{feed}: a dry run is not published", "run the window without `dry_run`")
    judged = ctx.require_done("audit")
    ctx = ctx.at(judged)
    tables = {**_untouched(ctx), **judged.tables}
    require_mains(feed, tables)
    counts = _counts(ctx, tables)
    pointer_of(feed)
    # A past window that runs again does not move the feed back.
    reached: Position = furthest(ctx.released, ctx.opened("publish").to_position)
    release_id = ctx.control.releases.commit(feed, window, tables, counts, reached)
    release = ctx.control.releases.of_window(feed, window)
    assert release is not None, "committed above"
    complete(ctx.session, ctx.control, release)
    ctx.control.leases.release(feed, window.holder)
    log.info("%s: release %d published, tag %s", feed, release_id, release_tag(release_id))


def _untouched(ctx: StageContext) -> dict[str, int]:
    """Returns the main snapshots of the feed's other tables: a release tags all tables of the feed."""
    others = {t.table for t in ctx.whole.tables} - set(ctx.names)
    names = [name for table in others for name in TableNames.of(ctx.feed.namespace, table)]
    return refs.heads(names, refs.MAIN)


def _counts(ctx: StageContext, at: Mapping[str, int]) -> dict[str, Any]:
    """Returns the counts that the release keeps.

    By table: this run's changes by operation, and the rows of current and history, also of tables that the
    run has not touched. For the run, among others: dispositions, tolerated rules, and commit times of changes
    unless the run starts over.
    `at`: the snapshots of the release.
    """
    of_changes = _OfChanges(ctx)
    rows = scans.counts(at)
    touched = ctx.contracts()

    def of_run(name: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        return scans.batches(name, scans.of_window(ctx.id), schema, at[name])

    def count(table: str, names: TableNames) -> dict[str, Any]:
        changes = of_run(names.changes, _OF_CHANGES) if table in touched else ()
        return {
            "changes": of_changes.by_operation(table, changes),
            "current": rows[names.current],
            "history": rows[names.history],
        }

    dispositions = tallied(of_run(ctx.lake.dispositions, _OF_DISPOSITIONS))
    tolerated = [
        a for a in ctx.control.audits.of_window(ctx.feed.feed, ctx.window.id) if a.detail["tolerated"]
    ]
    tables = {table: count(table, names) for table, names in ctx.whole.names.items() if names.current in at}
    return {
        "tables": tables,
        DIALECT: ctx.feed.dialect,
        arrivals.LOG_END: of_changes.log_end(),
        **arrivals.with_tables(ctx, of_changes.tables),
        "tolerated": [[a.table, a.rule, a.violations, a.detail["tolerated"]] for a in tolerated],
        "dispositions": [[*kind, n] for kind, n in dispositions.items()],
        "records": _records(ctx),
        "in_quarantine": rows[ctx.lake.quarantine],
        "committed": None if ctx.starts_over else lateness.committed(of_changes.times),
    }


class _OfChanges:
    """Collects operations, commit times and positions of the run's changes, batch by batch."""

    def __init__(self, ctx: StageContext) -> None:
        self.times: list[pa.ChunkedArray] = []
        self.tables: dict[str, set[str]] = {arrivals.STREAMED: set(), arrivals.WITH_LSNS: set()}
        self._has_log, self._ends = arrivals.has_log_end(ctx), [arrivals.log_end(ctx)]

    def by_operation(self, table: str, changes: Iterable[pa.RecordBatch]) -> dict[str, int]:
        """Counts the table's changes by operation, and keeps their times and positions."""
        counts = tallied(map(partial(self._operations, table), changes))
        of_table = {operation: n for (operation,), n in counts.items()}
        if of_table.keys() - {change.SNAPSHOT}:
            self.tables[arrivals.STREAMED].add(table)
        return of_table

    def _operations(self, table: str, changes: pa.RecordBatch) -> pa.RecordBatch:
        rows = pa.Table.from_batches([changes])
        if loads.have_lsns(rows).any():
            self.tables[arrivals.WITH_LSNS].add(table)
        self.times.append(lateness.timed(rows))
        if self._has_log:
            self._ends.append(log_end.of_changes(rows))
        return changes.select(["operation"])

    def log_end(self) -> dict[str, str] | None:
        end = log_end.furthest(self._ends)
        return None if end is None else end.as_json()


def _records(ctx: StageContext) -> int:
    """Returns how many records the run accounts for."""
    others = (input_records.waiting, input_records.replayed, input_records.planned)
    if any(records(ctx) is not None for records in others):
        return input_records.raw_records(ctx).count()
    return sum(scans.weight(raw, ctx.id)[0] for raw in ctx.raws)
