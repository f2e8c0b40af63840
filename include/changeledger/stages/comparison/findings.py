"""What comparisons leave: rows in the control store, and what is wrong in the lake."""

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
from changeledger.stages.common import database_lease

# This many findings of a table wait for those of others, to be written together.
_FEW = 20_000


@dataclass
class FindingsWriter:
    """Of several comparisons, each in place of what it left before; a row is saved after its findings."""

    workers: Workers
    control: ControlStore
    # The lease of who writes.
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
        """What comparisons have found is saved even if a later one fails.

        Raises LeaseHeld while another process has the lease; and LeaseLost before it writes what was read
        before another process took it: it may show rows that were erased since.
        """
        lease = database.comparison
        with database_lease.held(control, lease):
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
        """`wrong`: `findings.FINDINGS` of the row."""
        # A run that was ended may have left findings of this row without the row.
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
    """Ids of the comparisons that have findings."""
    table = catalog.load(FINDINGS)
    if table.current_snapshot() is None:
        return frozenset()
    partitions = table.inspect.partitions().column("partition").to_pylist()
    return frozenset(partition["comparison_id"] for partition in partitions)
