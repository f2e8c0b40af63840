"""Compare a database's feeds and write the report of it: what the job and the command both do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession
from rich.table import Table

from changeledger.config import Feed, Settings
from changeledger.databases import Database
from changeledger.inspection import comparison_report
from changeledger.reconcile.compare import VERDICTS
from changeledger.stages import compare
from changeledger.storage.control import ControlStore


def compare_and_report(
    spark: SparkSession, database: Database, feeds: Mapping[str, Feed], again: bool = False
) -> Path:
    """The report's path. Raises FeedsDisagree, with the report written."""
    settings = Settings()
    try:
        compare.run(spark, database, feeds, again)
    finally:
        control = ControlStore(settings.control_url)
        report = comparison_report.gather(spark, control, database.database)
        page = comparison_report.write(report, settings.data_docs / database.comparison)
    return page


def drawn_comparison(database: str) -> Table:
    """The last comparison of each table and pair, for a terminal."""
    grid = Table("reference", "feed", "table", "outcome", *VERDICTS, title=f"{database}: do its feeds agree?")
    last = {
        (row.reference, row.feed, row.table): row
        for row in ControlStore(Settings().control_url).comparisons(database)
    }
    for (reference, feed, table), row in last.items():
        grid.add_row(reference, feed, table, row.outcome, *(f"{row.counts[v]:,}" for v in VERDICTS))
    return grid
