"""Rows of kernels into the lake: those of this process without Spark, those of its workers by it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyspark.sql import DataFrame, SparkSession

from changeledger.kernels.rows import Here, Rows
from changeledger.model.change import quoted
from changeledger.storage import catalog, lake
from changeledger.storage.bounds import FLOATS, between, sql_literal
from changeledger.storage.file_writes import Writing, files_in
from changeledger.storage.rewrites import without
from changeledger.storage.spread import Spread, as_frame

# This many keys stand in a statement; more are joined.
_MOST_KEYS = 2_000
# A table and its branch.
Place = tuple[str, str]
_DELETE = "WHEN MATCHED THEN DELETE"


def append(rows: Rows, table: str, branch: str, columns: lake.Columns) -> None:
    """The `columns` of the rows, after what the branch has; no rows, no commit."""
    if isinstance(rows, Here) and not len(rows.table):
        return
    names, writing = [name for name, _ in columns], Writing.into(catalog.load(table))
    if isinstance(rows, Here):
        found = writing.files_of(rows.table.select(names).to_batches())
    else:
        assert isinstance(rows, Spread), "rows are here or spread"
        chosen = pa.schema([rows.schema.field(name) for name in names])
        found = files_in(rows.through(partial(_chosen, names), chosen).written(writing))
    if found:
        _commit(table, branch, found)


def _commit(table: str, branch: str, files: Sequence[DataFile]) -> None:
    with (
        catalog.load(table).transaction() as transaction,
        transaction.update_snapshot(branch=branch).fast_append() as append,
    ):
        for file in files:
            append.append_data_file(file)


def _chosen(names: Sequence[str], rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.select(list(names))


def delete_keys(
    spark: SparkSession, keys: Rows, place: Place, columns: lake.Columns, open_by: str | None = None
) -> None:
    """Take the rows with one of these keys off the branch; of a column `open_by`, those where it is NULL.

    `keys` has the `columns` among its own. A few keys stand in the statement, so that files without any of
    them are passed over, and files that are not large are written again by this process.
    """
    names = [name for name, _ in columns]
    is_open = "" if open_by is None else f" AND {quoted(open_by)} IS NULL"
    if isinstance(keys, Here) and (not len(keys.table) or without(keys.table.select(names), place, open_by)):
        return
    has_floats = FLOATS & {kind for _, kind in columns}
    if isinstance(keys, Here) and len(keys.table) <= _MOST_KEYS and not has_floats:
        where = f"{_are(keys.table.select(names), columns)}{is_open}"
        spark.sql(f"DELETE FROM {lake.on_branch(*place)} WHERE {where}")  # noqa: S608 - literals
        return
    same = [f"t.{quoted(name)} = s.{quoted(name)}" for name in names]
    if isinstance(keys, Here):
        # Of a join Spark passes over no file; of these it does.
        same += [f"t.{bound}" for bound in between(keys.table, columns)]
    frame: DataFrame = as_frame(spark, keys).select(*map(quoted, names))
    lake.merge(frame, *place, f"{' AND '.join(same)}{is_open}", _DELETE)


def _are(keys: pa.Table, columns: lake.Columns) -> str:
    """SQL: is a row's key one of these?"""
    cells = [[sql_literal(value, kind) for value in keys.column(n).to_pylist()] for n, kind in columns]
    names = [quoted(name) for name, _ in columns]
    each = [
        f"{name} IN ({', '.join(dict.fromkeys(values))})" for name, values in zip(names, cells, strict=True)
    ]
    if len(columns) > 1:
        rows = ", ".join(_struct(row) for row in zip(*cells, strict=True))
        each.append(f"{_struct(names)} IN ({rows})")
    return " AND ".join([*between(keys, columns), *each])


def _struct(cells: Sequence[str]) -> str:
    members = ", ".join(f"'{at}', {cell}" for at, cell in enumerate(cells))
    return f"named_struct({members})"
