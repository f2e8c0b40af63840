"""What every proof leaves: a row in the control store; where something is wrong, rows in the lake."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from changeledger.reconcile import drift, proof
from changeledger.stages.run import NAMESPACE, log
from changeledger.storage import lake
from changeledger.storage.control import ControlStore, ProofRow

DRIFT: Final = f"lake.{NAMESPACE}.drift"
REPAIRS: Final = f"lake.{NAMESPACE}.repairs"

PROVEN, WAITING, DRIFTED = "proven", "waiting", "drift"

# What a feed is held against: rows read of its source, or rows that its own topic tells again.
SOURCE, TOPIC = "source", "topic"

COUNTED: Final = (
    "rows", proof.EQUAL, proof.IN_FLIGHT, proof.MISSING, proof.SURPLUS, proof.DIFFERS, "unknown", "buckets",
    "read_again",
)  # fmt: skip


def told(counts: Mapping[str, int]) -> str:
    """The rows that are wrong, in words."""
    return ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in proof.DRIFTS if counts[verdict])


def worst(outcomes: Iterable[str]) -> str:
    """The gravest of the outcomes; PROVEN where there are none."""
    return max(outcomes, key=(PROVEN, WAITING, DRIFTED).index, default=PROVEN)


def last_proofs(control: ControlStore, database: str) -> dict[str, list[ProofRow]]:
    """The last ones of each feed. What a topic told again counts until the source has proved the table."""
    found = {}
    for feed, rows in control.last_proofs(database).items():
        proved = {row.table: row.at for row in rows if (row.against, row.outcome) == (SOURCE, PROVEN)}
        found[feed] = [
            row
            for row in rows
            # Of a topic that has told nothing again there is nothing to say.
            if row.against == SOURCE
            or (row.counts["rows"] and (row.table not in proved or row.at > proved[row.table]))
        ]
    return {feed: rows for feed, rows in found.items() if rows}


class Keeper:
    """Keeps what comes of proofs; several may be made at once."""

    def __init__(self, spark: SparkSession, control: ControlStore) -> None:
        lake.create_namespace(spark, NAMESPACE)
        for name, columns in ((DRIFT, drift.DRIFT_COLUMNS), (REPAIRS, drift.REPAIR_COLUMNS)):
            lake.create(spark, name, columns, ["proof_id"])
            lake.widen(spark, name, columns)
        self._control = control
        # One writer at a time of the tables that all proofs share.
        self._writing = Lock()

    def save(self, row: ProofRow) -> None:
        self._control.save_proof(row)
        wrong = told(row.counts) or "nothing wrong"
        log.info("%s: %s: %s, %s in %d rows", row.feed, row.table, row.outcome, wrong, row.counts["rows"])

    def drifts(self, rows: DataFrame, row: ProofRow) -> None:
        """Rows with the own columns of DRIFT, in place of those of the same proof before."""
        self._keep(rows, DRIFT, drift.DRIFT_COLUMNS, row)

    def repairs(self, rows: DataFrame, row: ProofRow) -> None:
        self._keep(rows, REPAIRS, drift.REPAIR_COLUMNS, row)

    def _keep(self, rows: DataFrame, table: str, columns: lake.Columns, row: ProofRow) -> None:
        named = {"proof_id": row.id, "database": row.database, "table": row.table, "feed": row.feed}
        with self._writing:
            lake.replace_named(rows, table, columns, "proof_id", named)
