"""Rewrites data files without the rows of certain keys."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, And, Or
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table

from changeledger.kernels.rows import COUNT, as_batch, counted
from changeledger.kernels.touched import Touched
from changeledger.lake import scans
from changeledger.lake.file_scans import Scan, alone, store_of
from changeledger.lake.file_writes import FILES, Rewriting, Writing, files_in
from changeledger.lake.leaving import Ends, Stays
from changeledger.spark.rows import Asked, SparkRows, Workers

# Limits of the files that are rewritten together: compressed bytes and rows.
_MOST_BYTES, _MOST_ROWS = 128 << 20, 2_000_000
# Files with fewer rows are merged.
_SMALL_ROWS = 50_000


class Rewrite(NamedTuple):
    """The files of a table that may have rows to remove, and the kernels that keep the others."""

    table: Table
    files: Sequence[FileScanTask]
    stays: Sequence[Stays]

    @classmethod
    def of(cls, table: Table, branch: str, gone: Sequence[tuple[pa.Table, Ends | None]]) -> Rewrite | None:
        """Plans the rewrite. `gone`: keys of rows to remove, and which of their rows by their ends.

        Returns None if the files are too large, or if one has position deletes: Iceberg's totals would count
        these for ever.
        """
        known = [(keys, Touched.of_keys(as_batch(keys)), ends) for keys, ends in gone]
        near = [(scans.are_near(touched), ends) for _, touched, ends in known]
        where = reduce(Or, (keys if ends is None else And(keys, ends.where) for keys, ends in near))
        files = list(table.scan(where, snapshot_id=table.metadata.refs[branch].snapshot_id).plan_files())
        size = sum(task.file.file_size_in_bytes for task in files)
        rows = sum(task.file.record_count for task in files)
        if any(task.delete_files for task in files) or size > _MOST_BYTES or rows > _MOST_ROWS:
            return None
        return cls(table, files, [Stays(keys, touched.hashes, ends) for keys, touched, ends in known])

    def asked(self, workers: Workers) -> list[Asked]:
        """Returns what workers are asked: to merge the small files, and to rewrite each other file.

        For each other file they also count the rows that stay.
        """
        schema = schema_to_pyarrow(self.table.schema(), include_field_ids=False)
        writing = Writing.into(self.table)
        small, large = self._parted()
        asked = [Asked(self._kept_rows(workers, schema, small), writing, schema=FILES)] if small else []
        for task in large:
            kept_rows = self._kept_rows(workers, schema, [task])
            asked.append(Asked(kept_rows.through(counted, COUNT)))
            asked.append(Asked(kept_rows, Rewriting(writing, task.file.record_count), schema=FILES))
        return asked

    def _parted(self) -> tuple[list[FileScanTask], list[FileScanTask]]:
        """Parts the files into small ones, which are merged, and others.

        Without merging, each window would leave more small files. A single small file counts as one of the
        others, so that it is left as it is if all its rows stay.
        """
        small = [task for task in self.files if task.file.record_count < _SMALL_ROWS]
        if len(small) < 2:
            return [], [*self.files]
        return small, [task for task in self.files if task.file.record_count >= _SMALL_ROWS]

    def _kept_rows(self, workers: Workers, schema: pa.Schema, files: Sequence[FileScanTask]) -> SparkRows:
        table = self.table
        scan = Scan(alone(table), store_of(table), table.schema(), AlwaysTrue(), schema, tuple(files))
        return reduce(lambda rows, kernel: rows.through(kernel, schema), self.stays, workers.read(scan))

    def changed(self, answers: Sequence[pa.Table]) -> tuple[list[DataFile], list[DataFile]]:
        """Returns the new files, and the old ones that they replace. `answers`: of `asked`."""
        small, large = self._parted()
        come = iter(answers)
        new = files_in(next(come)) if small else []
        old = [task.file for task in small]
        for task, counts, files in zip(large, come, come, strict=True):
            if sum(counts.column("n").to_pylist()) < task.file.record_count:
                new += files_in(files)
                old.append(task.file)
        return new, old
