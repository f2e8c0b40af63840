"""Verify a database's feeds and write the page of it: what the job and the command both do."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession
from rich.table import Table

from changeledger.config.database import AUTO, Database
from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.console.terminal import plain
from changeledger.control import ControlStore
from changeledger.control.outcomes import last_proofs
from changeledger.reports import page, proof
from changeledger.stages import verify
from changeledger.stages.verification import proofs


def verify_and_report(
    spark: SparkSession,
    database: Database,
    feeds: Mapping[str, Feed],
    what: str = AUTO,
    only: str = "",
) -> None:
    """Raises PublishedDrifts, with the page written."""
    settings = Settings()

    def write() -> None:
        control = ControlStore(settings.control_url)
        report = proof.gather(spark, control, database, feeds)
        proof.write(report, database.proofs(settings).parent)

    with page.written(write):
        verify.run(spark, database, feeds, what, only)


def drawn_proofs(database: str) -> Table:
    """The last proof of each table, for a terminal."""
    grid = Table(
        "feed",
        "table",
        "against",
        "outcome",
        *proofs.COUNTED,
        "read",
        title=f"{database}: does the published data match the source?",
    )
    for feed, rows in last_proofs(ControlStore(Settings().control_url), database).items():
        for row in rows:
            counts = (f"{row.counts[name]:,}" for name in proofs.COUNTED)
            until = f"{row.until:%Y-%m-%d %H:%M:%S}"
            grid.add_row(*map(plain, (feed, row.table, row.against, row.outcome, *counts, until)))
    return grid
