"""Data files written again without some of their rows: for many keys it costs less than to mark each row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table

from changeledger.kernels import order
from changeledger.kernels.arrow import column
from changeledger.kernels.hashed import hash_of
from changeledger.kernels.rows import as_batch
from changeledger.kernels.touched import Known, Touched
from changeledger.lake import catalog, scans
from changeledger.lake.file_scans import Scan, alone
from changeledger.lake.file_writes import Writing, commit
from changeledger.lake.iceberg import parallel_map
from changeledger.lake.worker_batches import gathered

# Files that are written again have together at most so many bytes, packed, and so many rows.
_MOST_BYTES, _MOST_ROWS = 128 << 20, 2_000_000
_ROWS_AT_ONCE = 100_000


def without(keys: pa.Table, place: tuple[str, str], open_by: str | None) -> bool:
    """Take the rows with one of the keys off the branch; of a column `open_by`, those where it is NULL.

    False, and nothing is done, where the files are large, or where positions are deleted in one: Iceberg's
    totals would count them for ever.
    """
    name, branch = place
    table = catalog.load(name)
    there = Touched.of_keys(as_batch(keys))
    where = scans.are_near(there)
    if open_by is not None:
        where = And(where, scans.is_null(open_by))
    tasks = list(table.scan(where, snapshot_id=table.metadata.refs[branch].snapshot_id).plan_files())
    size = sum(task.file.file_size_in_bytes for task in tasks)
    rows = sum(task.file.record_count for task in tasks)
    if any(t.delete_files for t in tasks) or size > _MOST_BYTES or rows > _MOST_ROWS:
        return False
    stays = Stays(keys, there.hashes, open_by)
    written = parallel_map(lambda task: (task.file, _rewritten(table, task, stays)), tasks)
    found = [(old, new) for old, new in written if new is not None]
    if found:
        commit(table, branch, [file for _, new in found for file in new], [old for old, _ in found])
    return True


@dataclass(frozen=True)
class Stays:
    """The kernel of the rows that do not go."""

    keys: pa.Table
    hashes: Known
    open_by: str | None

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        # As the keys have them: Iceberg reads texts of any size.
        cells = [rows.column(field.name).cast(field.type) for field in self.keys.schema]
        may_go = order.is_among(hash_of(cells), self.hashes)
        if self.open_by is not None:
            may_go &= ~rows.column(self.open_by).is_valid().to_numpy(zero_copy_only=False)
        found = np.flatnonzero(may_go)
        if not len(found):
            return rows
        # A hash may be that of another key, too.
        keys = [column(self.keys, name) for name in self.keys.schema.names]
        stays = np.ones(len(rows), np.bool_)
        stays[found[order.are_among([one.take(pa.array(found)) for one in cells], keys)]] = False
        return rows.filter(pa.array(stays))


def _rewritten(table: Table, task: FileScanTask, stays: Stays) -> list[DataFile] | None:
    """New files for one; None where all of its rows stay."""
    everything: BooleanExpression = AlwaysTrue()
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    scan = Scan(alone(table), table.io, table.schema(), everything, schema, (task,))
    batches = gathered(scan.rows(task), _ROWS_AT_ONCE)
    left = [stays(as_batch(rows)) for rows in batches]
    if sum(map(len, left)) == task.file.record_count:
        return None
    return Writing.into(table).files_of(left)
