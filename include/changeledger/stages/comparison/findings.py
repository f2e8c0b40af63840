"""Saves results of comparisons: their rows in the control store, and findings in the lake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

import pyarrow as pa
from pyspark.sql import DataFrame

from changeledger.compare import findings
from changeledger.compare.verdicts import FAULTS
from changeledger.config.database import Database
from changeledger.control import PROCESS_SECONDS, ComparisonRow, ControlStore
from changeledger.kernels.rows import Rows
from changeledger.lake import catalog, iceberg, new_tables
from changeledger.model.table_names import FINDINGS
from changeledger.spark.rows import Workers, as_spark
from changeledger.stages.common import databases

# Up to this many findings of a table are buffered, to be written together with those of other tables.
_FEW = 20_000


@dataclass
class FindingsWriter:
    """Writes the findings of several comparisons.

    Each comparison replaces its earlier findings. Its row is saved after its findings.
    """

    workers: Workers
    control: ControlStore
    # Name of the lease under which this process writes.
    lease: str
    # Ids of comparisons whose findings are in the lake.
    stored: frozenset[str] = frozenset()
    _rows: list[ComparisonRow] = field(default_factory=list)
    _replaced: list[str] = field(default_factory=list)
    _waiting: list[pa.Table] = field(default_factory=lambda: [findings.FINDINGS.empty_table()])
    _writing: Lock = field(default_factory=Lock)

    @classmethod
    @contextmanager
    def opened(cls, workers: Workers, control: ControlStore, database: Database) -> Iterator[FindingsWriter]:
        """Opens a writer under the database's lease. Saves finished comparisons even if a later one fails.

        Raises LeaseHeld while another process has the lease. Raises LeaseLost, without writing, if another
        process has taken it since: what was read may have rows that were erased.
        """
        lease = database.comparison
        with databases.lease(control, lease):
            new_tables.create(FINDINGS, findings.FINDINGS, {"comparison_id": "identity"})
            writer = cls(workers, control, lease, _stored())
            try:
                yield writer
            finally:
                if writer._replaced:
                    writer._write(workers.given(pa.concat_tables(writer._waiting)).frame, writer._replaced)
                for row in writer._rows:
                    control.comparisons.save(row)

    def add(self, row: ComparisonRow, wrong: Rows | None) -> None:
        """Adds a comparison and its findings. `wrong`: `findings.FINDINGS` of the row."""
        # A killed run may have left findings of this comparison without its row.
        replaced = [row.id, *self.control.comparisons.covered(row)]
        many = sum(row.counts[fault] for fault in FAULTS) > _FEW
        few = wrong.collected() if wrong is not None and not many else None
        with self._writing:
            if wrong is not None and many:
                self._write(as_spark(wrong).frame, replaced)
            elif few is not None or not self.stored.isdisjoint(replaced):
                self._replaced += replaced
                self._waiting += [] if few is None else [few]
            self._rows.append(row)

    def _write(self, rows: DataFrame, replaced: Sequence[str]) -> None:
        self.control.leases.renew(self.lease, PROCESS_SECONDS)
        iceberg.replace_partition(rows, FINDINGS, "comparison_id", *replaced)


def _stored() -> frozenset[str]:
    """Returns the ids of comparisons that have findings in the lake."""
    table = catalog.load(FINDINGS)
    if table.current_snapshot() is None:
        return frozenset()
    partitions = table.inspect.partitions().column("partition").to_pylist()
    return frozenset(partition["comparison_id"] for partition in partitions)
