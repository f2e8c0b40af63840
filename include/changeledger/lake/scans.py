"""Reads rows of lake tables: by Spark's workers, or, if they are few, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, BooleanExpression, Or

from changeledger.kernels.rows import BatchKernel
from changeledger.kernels.touched import Touched
from changeledger.lake import catalog, summaries
from changeledger.lake.conditions import is_among, is_equal, is_from, is_null, is_up_to
from changeledger.lake.file_scans import Scan
from changeledger.spark.rows import SparkRows, Workers

# Number of rows, and bytes of compressed files.
Weight = tuple[int, int]

_RUN = "window_id"


def weight(table: str, run: str | None = None) -> Weight:
    """Returns rows and bytes of main's files, or of those in a run's partition."""
    where = AlwaysTrue() if run is None else of_window(run)
    files = [task.file for task in catalog.load(table).scan(where).plan_files()]
    return sum(file.record_count for file in files), sum(file.file_size_in_bytes for file in files)


def read(table: str, where: BooleanExpression, schema: pa.Schema, snapshot: int | None = None) -> pa.Table:
    """Reads rows that meet the condition, on main or in a snapshot, in the columns and types of `schema`."""
    return pa.Table.from_batches([*batches(table, where, schema, snapshot)], schema)


def scanned(  # noqa: PLR0913, PLR0917 - what is read, and of what
    workers: Workers,
    table: str,
    where: BooleanExpression,
    schema: pa.Schema,
    snapshot: int | None = None,
    among: BatchKernel | None = None,
) -> SparkRows:
    """Like `read`, by Spark's workers. `among`: a kernel that keeps the wanted rows."""
    rows = workers.read(_scan(table, where, schema, snapshot))
    return rows if among is None else rows.through(among, schema)


def _scan(table: str, where: BooleanExpression, schema: pa.Schema, snapshot: int | None) -> Scan:
    loaded = catalog.load(table) if snapshot is None else catalog.with_snapshot(table, snapshot)
    return Scan.of(loaded, where, schema, snapshot)


def batches(
    table: str, where: BooleanExpression, schema: pa.Schema, snapshot: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Like `read`, file by file, so that not all rows are in memory at once."""
    scan = _scan(table, where, schema, snapshot)
    for part in scan.parts:
        yield from scan.rows(part)


def are_near(touched: Touched, prefix: str = "") -> BooleanExpression:
    """Returns a condition that all rows with one of these keys meet, by which other files are skipped.

    It compares each key column on its own, so other rows may meet it, too. `prefix`: `key.` if the columns
    are fields of the struct `key`. Columns with a dot in their name are ignored: the dot would mean a struct.
    """
    if not len(touched.hashes):
        return AlwaysFalse()
    condition: BooleanExpression = AlwaysTrue()
    columns = zip(touched.keys.schema.names, touched.keys.columns, strict=True)
    each = [_is_near(prefix + name, c, few=touched.are_few) for name, c in columns if "." not in name]
    return reduce(And, each, condition)


def _is_near(name: str, values: pa.Array, *, few: bool) -> BooleanExpression:
    kind = values.type
    # NaN matches neither a list of values nor a range.
    if pa.types.is_floating(kind) or pa.types.is_nested(kind) or (pa.types.is_boolean(kind) and not few):
        return AlwaysTrue()
    distinct = pc.unique(values).drop_null()
    condition: BooleanExpression = AlwaysFalse()
    if len(distinct):
        condition = is_among(name, distinct.to_pylist()) if few else AlwaysTrue()
        if not pa.types.is_boolean(kind):
            bounds = pc.min_max(distinct).as_py()
            condition = And(condition, is_from(name, bounds["min"]))
            condition = And(condition, is_up_to(name, bounds["max"]))
    return Or(condition, is_null(name)) if values.null_count else condition


def of_run(snapshots: Mapping[str, int], run: str) -> dict[str, int]:
    """Returns how many rows the run has in these snapshots, by table."""
    return {
        table: catalog.with_snapshot(table, snapshot)
        .scan(of_window(run), (_RUN,), snapshot_id=snapshot)
        .count()
        for table, snapshot in snapshots.items()
    }


def has_rows(table: str, run: str | None = None, snapshot: int | None = None, column: str = _RUN) -> bool:
    """Returns whether the table has rows, or rows of a run, on main or in a snapshot.

    `column`: the column with the run's window id.
    """
    iceberg_table = catalog.load(table) if snapshot is None else catalog.with_snapshot(table, snapshot)
    read = next(iter(iceberg_table.schema().fields)).name if run is None else column
    asked = AlwaysTrue() if run is None else of_window(run, column)
    return iceberg_table.scan(asked, (read,), snapshot_id=snapshot).count() > 0


def counts(snapshots: Mapping[str, int]) -> dict[str, int]:
    """Returns how many rows the snapshots have, by table; from their summaries if these say it."""
    said = {table: built.now for table, built in summaries.built(snapshots).items()}
    return {
        table: catalog.load(table).scan(snapshot_id=snapshots[table]).count() if rows is None else rows
        for table, rows in said.items()
    }


def of_window(window_id: str, column: str = _RUN) -> BooleanExpression:
    """Returns the condition for rows of the window."""
    return is_equal(column, window_id)
