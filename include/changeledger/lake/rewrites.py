"""Rewrites data files without the rows of certain keys."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
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
    """The files of a table that may have rows to remove, and the kernels that keep the others.

    `small`: files that are merged, since each window would leave more of them otherwise. `large`: files that
    are rewritten one by one, if a row of theirs goes.
    """

    table: Table
    small: Sequence[FileScanTask] = ()
    large: Sequence[FileScanTask] = ()
    stays: Sequence[Stays] = ()

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
        small = [task for task in files if task.file.record_count < _SMALL_ROWS]
        large = [task for task in files if task.file.record_count >= _SMALL_ROWS]
        if len(small) == 1:
            # It is left as it is if all its rows stay.
            small, large = [], files
        return cls(table, small, large, [Stays(keys, touched.hashes, ends) for keys, touched, ends in known])

    def asked(self, workers: Workers) -> list[Asked]:
        """Returns what workers are asked: to merge the small files, and to rewrite each large file.

        For each large file they also count the rows that stay.
        """
        writing = Writing.into(self.table)
        asked = [Asked(self._kept_rows(workers, self.small), writing, schema=FILES)] if self.small else []
        for task in self.large:
            kept_rows = self._kept_rows(workers, [task])
            asked.append(Asked(kept_rows.through(counted, COUNT)))
            rewriting = partial(Rewriting, writing, task.file.record_count)
            asked.append(Asked(kept_rows, rewriting, schema=FILES))
        return asked

    def _kept_rows(self, workers: Workers, files: Sequence[FileScanTask]) -> SparkRows:
        table = self.table
        schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
        scan = Scan(alone(table), store_of(table), table.schema(), AlwaysTrue(), schema, tuple(files))
        return reduce(lambda rows, kernel: rows.through(kernel, schema), self.stays, workers.read(scan))

    def changed(self, answers: Sequence[pa.Table]) -> tuple[list[DataFile], list[DataFile]]:
        """Returns the new files, and the old ones that they replace. `answers`: of `asked`."""
        come = iter(answers)
        new = files_in(next(come)) if self.small else []
        old = [task.file for task in self.small]
        for task, counts, files in zip(self.large, come, come, strict=True):
            if sum(counts.column("n").to_pylist()) < task.file.record_count:
                new += files_in(files)
                old.append(task.file)
        return new, old
