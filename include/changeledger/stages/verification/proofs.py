"""Saves results of proofs: their rows in the control store, and drift and repairs in the lake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from changeledger.config.database import Database
from changeledger.control import PROCESS_SECONDS, ControlStore, ProofRow
from changeledger.control.outcomes import WAITING
from changeledger.kernels.rows import Rows
from changeledger.lake import catalog, iceberg, new_tables
from changeledger.model.table_names import DRIFT, NAMESPACE, REPAIRS
from changeledger.model.wording import counted
from changeledger.spark.rows import Workers, as_spark
from changeledger.stages.common import databases
from changeledger.stages.common.context import log
from changeledger.verify import drift, verdicts

# Up to this many wrong rows of a table are buffered, to be written together with those of other tables.
_FEW: Final = 20_000

COUNTED: Final = (
    "rows", *verdicts.VERDICTS, "unknown", "buckets", "read_again",
)  # fmt: skip

_OF_WRONG: Final = (
    (DRIFT, drift.DRIFTS, drift.DRIFT_COLUMNS),
    (REPAIRS, drift.REPAIRS, drift.REPAIR_COLUMNS),
)


def _prepare(spark: SparkSession, control: ControlStore) -> None:
    """The tables of what is wrong, as this version has them.

    All databases share them. After an upgrade the proofs of two may begin at once: one of them widens. Raises
    LeaseHeld for the other one, and while a row is erased.
    """
    for name, schema, columns in _OF_WRONG:
        new_tables.create(name, schema, {"proof_id": "identity"})
        if not iceberg.has_columns(catalog.load(name), columns):
            with databases.lease(control, NAMESPACE):
                iceberg.widen(spark, name, columns)


@dataclass
class ProofWriter:
    """Writes results of proofs, of which several may run at once. Saves a proof's row after its drift."""

    workers: Workers
    control: ControlStore
    # Name of the lease under which this process writes.
    lease: str
    _rows: list[ProofRow] = field(default_factory=list)
    _waiting: dict[str, list[pa.Table]] = field(default_factory=lambda: {DRIFT: [], REPAIRS: []})
    _replaced: dict[str, list[str]] = field(default_factory=lambda: {DRIFT: [], REPAIRS: []})
    _writing: Lock = field(default_factory=Lock)

    @classmethod
    @contextmanager
    def opened(
        cls, spark: SparkSession, workers: Workers, control: ControlStore, database: Database
    ) -> Iterator[ProofWriter]:
        """What proofs have found is saved even if a later one fails. Raises as `FindingsWriter.opened`."""
        lease = database.verification
        with databases.lease(control, lease):
            _prepare(spark, control)
            writer = cls(workers, control, lease)
            try:
                yield writer
            finally:
                writer._write()

    @staticmethod
    def named(row: ProofRow) -> dict[str, str]:
        """Returns the columns that all rows of drift of this proof share."""
        return {"proof_id": row.id, "database": row.database, "table": row.table, "feed": row.feed}

    def add_proof(self, row: ProofRow) -> None:
        with self._writing:
            self._rows.append(row)

    def add_drift(self, row: ProofRow, drifts: Rows, repairs: Rows | None = None) -> None:
        """Adds drift (`drift.DRIFTS`) and planned repairs (`drift.REPAIRS`), in place of earlier ones of the
        same proof."""
        many = sum(row.counts[verdict] for verdict in verdicts.DRIFTS) > _FEW
        for table, rows in ((DRIFT, drifts), (REPAIRS, repairs)):
            if rows is None:
                continue
            few = None if many else rows.collected()
            with self._writing:
                if few is None:
                    self._replace(as_spark(rows).frame, table, [row.id])
                else:
                    self._waiting[table].append(few)
                    self._replaced[table].append(row.id)

    def _replace(self, rows: DataFrame, table: str, proofs: Sequence[str]) -> None:
        self.control.leases.renew(self.lease, PROCESS_SECONDS)
        iceberg.replace_partition(rows, table, "proof_id", *proofs)

    def _write(self) -> None:
        for table, rows in self._waiting.items():
            if rows:
                frame = self.workers.given(pa.concat_tables(rows)).frame
                self._replace(frame, table, self._replaced[table])
        for row in self._rows:
            self.control.proofs.save(row)
            wrong = verdicts.summary(row.counts) or "nothing wrong"
            of_rows = counted(row.counts["rows"], "row")
            # Differences of a waiting proof may still be on their way.
            so_far = " so far" if row.outcome == WAITING else ""
            log.info("%s: %s: %s, %s%s in %s", row.feed, row.table, row.outcome, wrong, so_far, of_rows)
