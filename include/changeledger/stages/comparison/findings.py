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
from changeledger.model.table_names import FINDINGS, NAMESPACE
from changeledger.storage import catalog, lake
from changeledger.storage.spread import as_frame

# This many findings of a table wait for those of others, to be written together.
_FEW = 20_000


@dataclass
class FindingsWriter:
    """Of several comparisons, each in place of what it left before; a row is saved after its findings."""

    spark: SparkSession
    control: ControlStore
    _rows: list[ComparisonRow] = field(default_factory=list)
    _replaced: list[str] = field(default_factory=list)
    _waiting: list[Rows] = field(default_factory=lambda: [Here(findings.FINDINGS.empty_table())])
    _writing: Lock = field(default_factory=Lock)

    @classmethod
    @contextmanager
    def opened(cls, spark: SparkSession, control: ControlStore) -> Iterator[FindingsWriter]:
        """What comparisons have found is saved even if a later one fails."""
        catalog.create_namespace(NAMESPACE)
        lake.create(spark, FINDINGS, findings.FINDING_COLUMNS, ["comparison_id"])
        found = cls(spark, control)
        try:
            yield found
        finally:
            found._write()

    def add(self, row: ComparisonRow, wrong: Rows | None, replaces: bool) -> None:
        """`wrong`: `findings.FINDINGS` of the row. `replaces`: may there be findings of it from before?"""
        with self._writing:
            if wrong is not None and sum(row.counts[fault] for fault in FAULTS) > _FEW:
                lake.replace_partition(as_frame(self.spark, wrong), FINDINGS, "comparison_id", row.id)
            elif replaces:
                self._replaced.append(row.id)
                self._waiting += [] if wrong is None else [Here(wrong.collected())]
            self._rows.append(row)

    def _write(self) -> None:
        if self._replaced:
            rows = as_frame(self.spark, together(self._waiting))
            lake.replace_partition(rows, FINDINGS, "comparison_id", *self._replaced)
        for row in self._rows:
            self.control.save_comparison(row)
