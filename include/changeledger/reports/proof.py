"""The page of a database's proofs, and its Markdown: first the verdict, then each wrong row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from changeledger.config.database import AUTO, Database
from changeledger.config.feed import Feed
from changeledger.config.object_path import PagePath
from changeledger.config.settings import Settings
from changeledger.control import ControlStore, ProofRow
from changeledger.control.outcomes import DRIFTED, PROVEN, SOURCE, TOPIC, WAITING, last_proofs, worst_proof
from changeledger.kernels import display
from changeledger.lake import iceberg
from changeledger.model import table_names
from changeledger.pages.redaction import REDACTED
from changeledger.reports import page
from changeledger.stages import verify
from changeledger.verify import verdicts

# How many rows of a table are shown. The lake has all of them.
_SAMPLES = 50

_VERDICTS = {
    verdicts.MISSING: "the source has the row, the published table does not",
    verdicts.EXTRA: "the published table has the row, the source does not",
    verdicts.DIFFERS: "both have the row, with different values",
}
_AGAINST = {SOURCE: "the source", TOPIC: "its topic, delivered again"}
# Counts of keys. The first is the sum of the others.
_KEYS = {
    "keys": "keys that were compared: the sum of the next five",
    verdicts.EQUAL: "the row is the same",
    verdicts.IN_FLIGHT: (
        "the key changed since the reading began; what is published, a row or none, was right at some moment "
        "of it"
    ),
    **_VERDICTS,
}
_BESIDE = {
    "rows": "rows that were read; a key that is in flight or that only the published table has may have none",
    "unknown": "cells that no change has sent yet, in rows that are otherwise the same",
}


@dataclass(frozen=True)
class Wrong:
    """The first wrong rows of a feed's table, and the changes that would correct them."""

    row: ProofRow
    drifts: Sequence[dict[str, Any]]
    repairs: Sequence[dict[str, Any]]

    @property
    def more(self) -> int:
        """The number of wrong rows that are not shown."""
        return sum(self.row.counts[verdict] for verdict in verdicts.DRIFTS) - len(self.drifts)


@dataclass(frozen=True)
class FeedProofs:
    """The last proof of each table of a feed."""

    feed: str
    outcome: str
    rows: Sequence[ProofRow]
    wrong: Sequence[Wrong]

    @property
    def says(self) -> str:
        """The verdict as a sentence."""
        read = [row for row in self.rows if row.against == SOURCE] or self.rows
        tables = "1 table" if len(read) == 1 else f"{len(read)} tables"
        rows, keys = (f"{sum(counted(row)[name] for row in read):,} {name}" for name in ("rows", "keys"))
        at = f"{max(row.until for row in read):%Y-%m-%d %H:%M:%S} UTC"
        if self.outcome == PROVEN:
            return f"{self.feed} is proven: {rows} of {tables} match the source at {at}."
        wrong = ", ".join(
            f"{row.table} ({verdicts.summary(row.counts)})" for row in self.rows if row.outcome != PROVEN
        )
        if self.outcome == WAITING:
            return (
                f"{self.feed} waits: {wrong} among the rows read at {at}. The feed has not released these "
                "changes yet."
            )
        return f"{self.feed} has drifted: {wrong} of {keys} of {tables}, read at {at}."


@dataclass(frozen=True)
class Report:
    """The content of the page."""

    database: str
    written: datetime
    feeds: Sequence[FeedProofs]
    # Feeds, and tables of feeds, without a proof.
    missing: Sequence[str] = ()
    # Whether a connection to the source is known.
    has_source: bool = True


def counted(row: ProofRow) -> dict[str, int]:
    """Returns the counts, and `keys`, the number of all compared keys."""
    return {**row.counts, "keys": sum(row.counts[verdict] for verdict in verdicts.VERDICTS)}


def verify_and_report(
    spark: SparkSession, database: Database, feeds: Mapping[str, Feed], what: str = AUTO, only: str = ""
) -> None:
    """Verifies the feeds and writes the page, for the job and the command.

    Raises PublishedDrifts after writing the page.
    """
    settings = Settings()
    folder = database.proofs(settings).parent
    with page.written(
        lambda: write(gather(spark, ControlStore(settings.control_url), database, feeds), folder)
    ):
        verify.run(spark, database, feeds, what, only)


def gather(
    spark: SparkSession, control: ControlStore, database: Database, configured: Mapping[str, Feed]
) -> Report:
    """Gathers the report from the control store, and from drifts and repairs in the lake."""
    last = last_proofs(control.proofs, database.database)
    wrong = [row.id for rows in last.values() for row in rows if row.outcome == DRIFTED]
    drifts, repairs = (_by_proof(spark, table, wrong) for table in (table_names.DRIFT, table_names.REPAIRS))
    feeds = [
        FeedProofs(
            feed,
            worst_proof(row.outcome for row in rows),
            rows,
            [Wrong(row, drifts[row.id,], repairs[row.id,]) for row in rows if row.outcome == DRIFTED],
        )
        for feed, rows in last.items()
    ]
    now = datetime.now(UTC).replace(microsecond=0)
    missing, has_source = _missing(database, configured, last), database.source(configured) is not None
    return Report(database.database, now, feeds, missing, has_source)


def _missing(
    database: Database, configured: Mapping[str, Feed], last: Mapping[str, Sequence[ProofRow]]
) -> list[str]:
    source, feeds = database.verified(configured)
    if source is None:
        return []
    missing = []
    for feed in feeds:
        read = {row.table for row in last.get(feed.feed, ()) if row.against == SOURCE}
        lacking = [t.table for t in feed.tables if t.table not in read]
        missing += [f"{feed.feed} ({', '.join(lacking)})" if read else feed.feed] if lacking else []
    return missing


def _by_proof(
    spark: SparkSession, table: str, wanted: Sequence[str]
) -> Mapping[tuple[str], list[dict[str, Any]]]:
    if not wanted:
        return {}
    rows = iceberg.read(spark, table).where(F.col("proof_id").isin(list(wanted)))
    return page.samples(rows, ["proof_id"], ["key"], _SAMPLES)


def write(report: Report, folder: PagePath) -> None:
    """Writes `index.html` and `proof.md` in the folder."""
    known = {
        "report": report,
        "verdicts": _VERDICTS,
        "keys": _KEYS,
        "counts": {**_KEYS, **_BESIDE},
        "against": _AGAINST,
        "drift_table": table_names.DRIFT,
        "repair_table": table_names.REPAIRS,
    }
    page.write("proof", folder, known, assignments=_assignments, counted=counted)


def _assignments(change: dict[str, Any]) -> str:
    """Describes a correcting change briefly, by the cells that it sets."""
    before, after = change["before"] or {}, change["after"]
    if after is None:
        return "the row goes"
    changed = {name: value for name, value in after.items() if name not in before or before[name] != value}
    hidden = Settings().redact_values
    return ", ".join(
        f"{name} = {REDACTED if hidden else 'NULL' if value is None else display.told_apart(value)}"
        for name, value in changed.items()
    )
