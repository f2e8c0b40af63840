"""Publish: every table of the run, or none.

The release row in the control store is the commit point. What follows, moving and tagging each table,
can be done again at any time; after a crash in between, the next run completes it.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from changeledger.config import Feed
from changeledger.contract import TableNames
from changeledger.errors import StageOrderError
from changeledger.stages.run import Run, log
from changeledger.storage import lake
from changeledger.storage.control import Position, furthest
from changeledger.storage.releases import complete, release_tag
from changeledger.window import Window


def run(spark: SparkSession, feed: Feed, window: Window) -> None:
    """Raises StageOrderError unless the window's audit has passed, and for a dry run."""
    this = Run.begin(spark, feed, window)
    if this is None:
        return
    if window.request.dry_run:
        raise StageOrderError(f"{feed.feed}: a dry run is not published", "run the window without `dry_run`")
    this.require_done("reconcile")
    _require_audit(this)
    tables = _tables(this)
    counts = _counts(this)
    release_id = this.control.commit_release(feed.feed, window, tables, counts, _position(this))
    release = this.control.release(feed.feed, window)
    assert release is not None, "committed above"
    complete(spark, this.control, release)
    this.control.release_lease(feed.feed, window.holder)
    log.info("%s: release %d published, tag %s", feed.feed, release_id, release_tag(release_id))


def _require_audit(this: Run) -> None:
    audits = this.control.audits(this.feed.feed, this.window)
    failed = [a.rule for a in audits if not a.success and a.detail["stops"]]
    if not audits or failed:
        raise StageOrderError(
            f"{this.feed.feed}: the audit of the window {this.id} has not passed: "
            f"{', '.join(failed) or 'it was not run'}",
            "run the audit, and look at its Data Docs where it fails",
        )


def _tables(this: Run) -> dict[str, int]:
    """The snapshot of each table that the release has."""
    of_feed = [this.dispositions, this.quarantine, this.pending, this.replay, this.breaks]
    tables = [table for table in of_feed if lake.exists(this.spark, table)]
    for table in this.contracts():
        tables += this.names[table]
    branches = dict.fromkeys(tables, this.branch)
    # Tables that the run has not touched belong to the release as they are: it is read by one tag.
    for table in {t.table for t in this.whole.tables} - set(this.names):
        names = TableNames.of(this.feed.namespace, table)
        branches |= {name: "main" for name in names if lake.exists(this.spark, name)}
    found = lake.each(lambda one: (one[0], lake.snapshot_of(this.spark, *one)), branches.items())
    return {table: snapshot for table, snapshot in found if snapshot is not None}


def _counts(this: Run) -> dict[str, Any]:
    """Rows by table, for the report: changes by operation of this run, rows of current and history."""

    def count(table: str) -> tuple[str, dict[str, Any]]:
        names = this.names[table]
        by_operation = this.new_changes(table).groupBy("operation").count().collect()
        return table, {
            "changes": {row["operation"]: row["count"] for row in by_operation},
            "current": lake.read(this.spark, names.current, this.branch).count(),
            "history": lake.read(this.spark, names.history, this.branch).count(),
        }

    dispositions = lake.read(this.spark, this.dispositions, this.branch).where(F.col("run_id") == this.id)
    others = dispositions.groupBy("disposition", "reason").count().collect()
    tolerated = [a for a in this.control.audits(this.feed.feed, this.window) if a.detail["tolerated"]]
    return {
        "tables": dict(lake.each(count, this.contracts())),
        "tolerated": [[a.table, a.rule, a.violations, a.detail["tolerated"]] for a in tolerated],
        "dispositions": [[row["disposition"], row["reason"], row["count"]] for row in others],
        "records": this.raw_records().count(),
    }


def _position(this: Run) -> Position:
    """How far the feed is released: a window of the past that was run again does not take it back."""
    known = this.control.position(this.feed.feed) or {}
    reached: Position = furthest(known, this.opened("publish").to_position)
    return reached
