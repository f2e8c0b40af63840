"""Rows of kernels into the lake: those of this process without Spark, those of its workers by it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import DataFile
from pyspark.sql import DataFrame, SparkSession

from changeledger.kernels.rows import Here, Rows
from changeledger.lake import catalog, iceberg, refs, scans
from changeledger.lake.bounds import FLOATS, between, sql_literal
from changeledger.lake.file_writes import Writing, commit, files_in
from changeledger.lake.rewrites import without
from changeledger.lake.spread import Spread, as_frame
from changeledger.model.change import quoted
from changeledger.model.errors import ConfigError, SourceUnavailable

# This many keys stand in a statement; more are joined.
_MOST_KEYS = 2_000
# A table and its branch.
Place = tuple[str, str]
_DELETE = "WHEN MATCHED THEN DELETE"


def append(rows: Rows, table: str, branch: str, columns: iceberg.Columns) -> None:
    """The `columns` of the rows, after what the branch has; no rows, no commit."""
    if isinstance(rows, Here) and not len(rows.table):
        return
    names = [name for name, _ in columns]
    chosen = pa.schema([rows.schema.field(name) for name in names])
    found = _written(rows.through(partial(_chosen, names), chosen), table)
    if found:
        commit(catalog.load(table), branch, found)


def replace_window(rows: Rows, table: str, window_id: str, since: int | None) -> None:
    """The rows in place of those that main has of the window: twice is as good as once.

    `since`: main before the rows were read; None if it had no snapshot. Raises SourceUnavailable if another
    process has written main since: its rows may be the same ones.
    """
    found, there = _written(rows, table), catalog.load(table)
    main = there.current_snapshot()
    if (main and main.snapshot_id) != since:
        raise _written_meanwhile(table)
    old = list(there.scan(scans.of_window(window_id)).plan_files())
    if not all(task.residual == AlwaysTrue() for task in old):
        raise ConfigError(
            f"{table} has files with rows of several windows: to replace one would remove the others' rows",
            "find out who has written them; only changeledger may write its raw tables",
        )
    if found or old:
        try:
            commit(there, refs.MAIN, found, [task.file for task in old], alone=True)
        except (CommitFailedException, ValidationException) as error:
            raise _written_meanwhile(table) from error


def _written_meanwhile(table: str) -> SourceUnavailable:
    return SourceUnavailable(
        f"another process has written {table} while this one was at it",
        "nothing: the next try reads the window again, in place of whatever is in the table",
    )


def _written(rows: Rows, table: str) -> list[DataFile]:
    """New files of the table, with the rows: written where these are."""
    writing = Writing.into(catalog.load(table))
    if isinstance(rows, Here):
        return writing.files_of(rows.table.to_batches())
    assert isinstance(rows, Spread), "rows are here or spread"
    return files_in(rows.written(writing))


def _chosen(names: Sequence[str], rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.select(list(names))


def delete_keys(
    spark: SparkSession, keys: Rows, place: Place, columns: iceberg.Columns, open_by: str | None = None
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
        spark.sql(f"DELETE FROM {iceberg.on_branch(*place)} WHERE {where}")  # noqa: S608 - literals
        return
    same = [f"t.{quoted(name)} = s.{quoted(name)}" for name in names]
    if isinstance(keys, Here):
        # Of a join Spark passes over no file; of these it does.
        same += [f"t.{bound}" for bound in between(keys.table, columns)]
    frame: DataFrame = as_frame(spark, keys).select(*map(quoted, names))
    iceberg.merge(frame, *place, f"{' AND '.join(same)}{is_open}", _DELETE)


def _are(keys: pa.Table, columns: iceberg.Columns) -> str:
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
