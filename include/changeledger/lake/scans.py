"""Rows of the lake's tables: read by Spark's workers, and a few of them by this process."""

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

# Rows, and bytes in files, which are packed.
Weight = tuple[int, int]

_RUN = "window_id"


def weight(table: str, run: str | None = None) -> Weight:
    """How many rows the files of main have, and bytes; or those of a run's partition."""
    where = AlwaysTrue() if run is None else of_window(run)
    files = [task.file for task in catalog.load(table).scan(where).plan_files()]
    return sum(file.record_count for file in files), sum(file.file_size_in_bytes for file in files)


def read(table: str, where: BooleanExpression, schema: pa.Schema, snapshot: int | None = None) -> pa.Table:
    """The rows that meet the condition, on main or in a snapshot, in the columns and types of `schema`."""
    return pa.Table.from_batches([*batches(table, where, schema, snapshot)], schema)


def scanned(  # noqa: PLR0913, PLR0917 - what is read, and of what
    workers: Workers,
    table: str,
    where: BooleanExpression,
    schema: pa.Schema,
    snapshot: int | None = None,
    among: BatchKernel | None = None,
) -> SparkRows:
    """`read`, by Spark's workers. `among`: the kernel of those that are wanted."""
    rows = workers.read(_scan(table, where, schema, snapshot))
    return rows if among is None else rows.through(among, schema)


def _scan(table: str, where: BooleanExpression, schema: pa.Schema, snapshot: int | None) -> Scan:
    loaded = catalog.load(table) if snapshot is None else catalog.with_snapshot(table, snapshot)
    return Scan.of(loaded, where, schema, snapshot)


def batches(
    table: str, where: BooleanExpression, schema: pa.Schema, snapshot: int | None = None
) -> Iterator[pa.RecordBatch]:
    """`read`, file by file: not all rows are here at once."""
    scan = _scan(table, where, schema, snapshot)
    for part in scan.parts:
        yield from scan.rows(part)


def are_near(touched: Touched, prefix: str = "") -> BooleanExpression:
    """Can a row have one of the keys, by the value of each column? Files of other rows are passed over.

    `prefix`: `key.` where the columns are members of the struct `key`. A dot in a name leads into a struct.
    """
    if not len(touched.hashes):
        return AlwaysFalse()
    condition: BooleanExpression = AlwaysTrue()
    columns = zip(touched.keys.schema.names, touched.keys.columns, strict=True)
    each = [_is_near(prefix + name, c, few=touched.are_few) for name, c in columns if "." not in name]
    return reduce(And, each, condition)


def _is_near(name: str, values: pa.Array, *, few: bool) -> BooleanExpression:
    kind = values.type
    # NaN is among nothing, and stands between nothing.
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
    """By table, how many rows the run has in that snapshot."""
    return {
        table: catalog.with_snapshot(table, snapshot)
        .scan(of_window(run), (_RUN,), snapshot_id=snapshot)
        .count()
        for table, snapshot in snapshots.items()
    }


def has_rows(table: str, run: str | None = None, snapshot: int | None = None, column: str = _RUN) -> bool:
    """Has the table rows, or those that name a run in the column; on main or in a snapshot."""
    iceberg_table = catalog.load(table) if snapshot is None else catalog.with_snapshot(table, snapshot)
    read = next(iter(iceberg_table.schema().fields)).name if run is None else column
    asked = AlwaysTrue() if run is None else of_window(run, column)
    return iceberg_table.scan(asked, (read,), snapshot_id=snapshot).count() > 0


def counts(snapshots: Mapping[str, int]) -> dict[str, int]:
    """How many rows the snapshots have, by table; from what they say of themselves, where they say it."""
    said = {table: built.now for table, built in summaries.built(snapshots).items()}
    return {
        table: catalog.load(table).scan(snapshot_id=snapshots[table]).count() if rows is None else rows
        for table, rows in said.items()
    }


def of_window(window_id: str, column: str = _RUN) -> BooleanExpression:
    """Is a row the window's own?"""
    return is_equal(column, window_id)
