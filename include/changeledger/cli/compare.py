"""Compare a database's feeds and write the report of it: what the job and the command both do."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession
from rich.table import Table

from changeledger.compare.verdicts import VERDICTS
from changeledger.config.database import Database
from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.console.terminal import plain
from changeledger.control import ControlStore
from changeledger.reports import comparison, page
from changeledger.stages import compare


def compare_and_report(
    spark: SparkSession, database: Database, feeds: Mapping[str, Feed], full: bool = False
) -> None:
    """Raises FeedsDisagree, with the report written."""
    settings = Settings()

    def write() -> None:
        control = ControlStore(settings.control_url)
        report = comparison.gather(spark, control, database, feeds)
        comparison.write(report, database.report(settings).parent)

    with page.written(write):
        compare.run(spark, database, feeds, full)


def drawn_comparison(database: str) -> Table:
    """The last comparison of each table and pair, for a terminal."""
    grid = Table("reference", "feed", "table", "outcome", *VERDICTS, title=f"{database}: do its feeds agree?")
    for pair, rows in ControlStore(Settings().control_url).last_comparisons(database).items():
        for row in rows:
            counts = (f"{row.counts[v]:,}" for v in VERDICTS)
            grid.add_row(*map(plain, (*pair, row.table, row.outcome, *counts)))
    return grid
