"""What comparisons leave: rows in the control store, and what is wrong in the lake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

from pyspark.sql import SparkSession

from changeledger.compare import findings
from changeledger.compare.verdicts import FAULTS
from changeledger.control import ComparisonRow, ControlStore
from changeledger.kernels.rows import Here, Rows, together
from changeledger.lake import catalog, iceberg
from changeledger.lake.spread import as_frame
from changeledger.model.table_names import FINDINGS, NAMESPACE

# This many findings of a table wait for those of others, to be written together.
_FEW = 20_000


@dataclass
class FindingsWriter:
    """Of several comparisons, each in place of what it left before; a row is saved after its findings."""

    spark: SparkSession
    control: ControlStore
    # Ids of comparisons whose findings are in the lake.
    stored: frozenset[str] = frozenset()
    _rows: list[ComparisonRow] = field(default_factory=list)
    _replaced: list[str] = field(default_factory=list)
    _waiting: list[Rows] = field(default_factory=lambda: [Here(findings.FINDINGS.empty_table())])
    _writing: Lock = field(default_factory=Lock)

    @classmethod
    @contextmanager
    def opened(cls, spark: SparkSession, control: ControlStore) -> Iterator[FindingsWriter]:
        """What comparisons have found is saved even if a later one fails."""
        catalog.create_namespace(NAMESPACE)
        iceberg.create(spark, FINDINGS, findings.FINDING_COLUMNS, ["comparison_id"])
        writer = cls(spark, control, _stored())
        try:
            yield writer
        finally:
            writer._write()

    def add(self, row: ComparisonRow, wrong: Rows | None) -> None:
        """`wrong`: `findings.FINDINGS` of the row."""
        # A run that was ended may have left findings of this row without the row.
        replaced = [row.id, *self.control.covered(row)]
        with self._writing:
            if wrong is not None and sum(row.counts[fault] for fault in FAULTS) > _FEW:
                iceberg.replace_partition(as_frame(self.spark, wrong), FINDINGS, "comparison_id", *replaced)
            elif wrong is not None or not self.stored.isdisjoint(replaced):
                self._replaced += replaced
                self._waiting += [] if wrong is None else [Here(wrong.collected())]
            self._rows.append(row)

    def _write(self) -> None:
        if self._replaced:
            rows = as_frame(self.spark, together(self._waiting))
            iceberg.replace_partition(rows, FINDINGS, "comparison_id", *self._replaced)
        for row in self._rows:
            self.control.save_comparison(row)


def _stored() -> frozenset[str]:
    """Ids of the comparisons that have findings."""
    table = catalog.load(FINDINGS)
    if table.current_snapshot() is None:
        return frozenset()
    partitions = table.inspect.partitions().column("partition").to_pylist()
    return frozenset(partition["comparison_id"] for partition in partitions)
