"""Verify a database's feeds and write the page of it: what the job and the command both do."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession
from rich.table import Table

from changeledger.config import Feed, Settings
from changeledger.databases import NEEDED, Database
from changeledger.inspection import proof_report
from changeledger.stages import proofs, verify
from changeledger.storage.control import ControlStore


def verify_and_report(
    spark: SparkSession,
    database: Database,
    feeds: Mapping[str, Feed],
    what: str = NEEDED,
    only: str = "",
) -> None:
    """Raises PublishedDrifts, with the page written."""
    settings = Settings()
    try:
        verify.run(spark, database, feeds, what, only)
    finally:
        control = ControlStore(settings.control_url)
        proof_report.write(
            proof_report.gather(spark, control, database.database), database.proofs(settings).parent
        )


def drawn_proofs(database: str) -> Table:
    """The last proof of each table, for a terminal."""
    grid = Table(
        "feed",
        "table",
        "against",
        "outcome",
        *proofs.COUNTED,
        "read",
        title=f"{database}: is it what the source holds?",
    )
    for feed, rows in proofs.last_proofs(ControlStore(Settings().control_url), database).items():
        for row in rows:
            counts = (f"{row.counts[name]:,}" for name in proofs.COUNTED)
            grid.add_row(feed, row.table, row.against, row.outcome, *counts, f"{row.until:%Y-%m-%d %H:%M:%S}")
    return grid
