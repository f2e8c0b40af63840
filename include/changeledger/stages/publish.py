"""Publish: every table of the run, or none.

The release row in the control store is the commit point. What follows, moving and tagging each table,
can be done again at any time; after a crash in between, the next run completes it.
"""

from __future__ import annotations

from typing import Any

from changeledger.contract import TableNames
from changeledger.errors import StageOrderError
from changeledger.stages.run import Run, log, stage
from changeledger.storage import catalog, refs, scans
from changeledger.storage.control import Position, furthest
from changeledger.storage.releases import complete, release_tag, require_mains


@stage
def run(this: Run) -> None:
    """Publishes the snapshots that the audit has judged, and no others.

    Raises StageOrderError unless the window's audit has passed, and for a dry run; ReleaseStuck where
    somebody else has written a published table.
    """
    feed, window = this.feed.feed, this.window
    if window.request.dry_run:
        raise StageOrderError(f"{feed}: a dry run is not published", "run the window without `dry_run`")
    this = this.at(this.require_done("audit"))
    tables = _tables(this)
    require_mains(feed, tables)
    release_id = this.control.commit_release(feed, window, tables, _counts(this), _position(this))
    release = this.control.release(feed, window)
    assert release is not None, "committed above"
    complete(this.spark, this.control, release)
    this.control.release_lease(feed, window.holder)
    log.info("%s: release %d published, tag %s", feed, release_id, release_tag(release_id))


def _tables(this: Run) -> dict[str, int]:
    """The snapshot of each table that the release has: as judged, or, so that one tag reads all tables, as it
    is where the run has not touched it."""
    others = [
        name
        for table in {t.table for t in this.whole.tables} - set(this.names)
        for name in TableNames.of(this.feed.namespace, table)
        if catalog.exists(name)
    ]
    return {**refs.heads(others, refs.MAIN), **(this.snapshots or {})}


def _counts(this: Run) -> dict[str, Any]:
    """Rows by table, for the report: changes by operation of this run, rows of current and history."""

    assert this.snapshots is not None, "what is published was judged"
    at = this.snapshots

    def count(table: str) -> dict[str, Any]:
        names = this.names[table]
        return {
            "changes": dict(scans.grouped(names.changes, at[names.changes], this.id, ["operation"])),
            "current": scans.count(names.current, at[names.current]),
            "history": scans.count(names.history, at[names.history]),
        }

    others = scans.grouped(this.dispositions, at[this.dispositions], this.id, ["disposition", "reason"])
    tolerated = [a for a in this.control.audits(this.feed.feed, this.window) if a.detail["tolerated"]]
    return {
        "tables": {table: count(table) for table in this.contracts()},
        "tolerated": [[a.table, a.rule, a.violations, a.detail["tolerated"]] for a in tolerated],
        "dispositions": [list(row) for row in others],
        "records": _records(this),
    }


def _records(this: Run) -> int:
    """How many records the run accounts for."""
    if this.waiting() is None and this.replayed() is None and this.planned() is None:
        return sum(scans.weight(raw, this.id)[0] for raw in this.raws)
    return this.raw_records().count()


def _position(this: Run) -> Position:
    """How far the feed is released: a window of the past that was run again does not take it back."""
    known = this.control.position(this.feed.feed) or {}
    reached: Position = furthest(known, this.opened("publish").to_position)
    return reached
