"""Writes rows of kernels to the lake: workers write files, and this process commits them table by table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import Table
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from changeledger.kernels.rows import Rows, chosen
from changeledger.lake import catalog, iceberg, refs, scans
from changeledger.lake.file_writes import FILES, Writing, commit, files_in
from changeledger.lake.leaving import Ends
from changeledger.lake.parallel import parallel_map
from changeledger.lake.rewrites import Rewrite
from changeledger.model.change import literal, quoted
from changeledger.model.errors import ConfigError, SourceUnavailable
from changeledger.spark.rows import Asked, Workers, as_spark
from changeledger.spark.session import for_small_data

# Up to this many keys are sent to the workers that rewrite files; for more, Spark joins them.
MOST_KEYS: Final = 200_000


class Keys(NamedTuple):
    """Rows to remove: those with one of these keys and, if `ends` is given, with these ends.

    `known`: the keys in this process. If there are more than `MOST_KEYS`, one more than that is enough.
    """

    rows: Rows
    columns: iceberg.Columns
    known: pa.Table
    ends: Ends | None = None


class TableChange(NamedTuple):
    """A change of a table on a branch: adds new rows, and removes rows by their keys.

    `new`: rows, of which the table's columns are written, or `FILES` that workers have written.
    """

    table: str
    branch: str
    new: Rows | pa.Table
    gone: Sequence[Keys] = ()


def append(rows: Rows, table: str, branch: str) -> None:
    """Appends the rows to the branch. Commits nothing if there are none."""
    apply(as_spark(rows).workers, [TableChange(table, branch, rows)])


def apply(workers: Workers, changes: Sequence[TableChange]) -> None:
    """Applies the changes by one Spark job for all and one commit for each table.

    The job writes new rows, and rewrites files without the removed ones. Keys in large files are removed by
    MERGE instead, in a commit of its own.
    """
    rewrites = [_rewrite(change) for change in changes]
    asked: list[list[Asked]] = []
    for change, rewrite in zip(changes, rewrites, strict=True):
        asks = [] if isinstance(change.new, pa.Table) else [_to_be_written(change.new, rewrite.table)]
        asked.append([*asks, *(rewrite.asked(workers) if rewrite.stays else ())])
    answers = iter(workers.answers([ask for asks in asked for ask in asks]))
    commits = []
    for change, rewrite, asks in zip(changes, rewrites, asked, strict=True):
        of_rewrite = [next(answers) for _ in asks]
        written = change.new if isinstance(change.new, pa.Table) else of_rewrite.pop(0)
        new_files, old = rewrite.changed(of_rewrite)
        files = [*files_in(written), *new_files]
        if files or old:
            commits.append(partial(commit, rewrite.table, change.branch, files, old))
    parallel_map(lambda commit_table: commit_table(), commits)


def _to_be_written(rows: Rows, table: Table) -> Asked:
    return Asked(as_spark(rows), Writing.into(table), schema=FILES)


def _rewrite(change: TableChange) -> Rewrite:
    """Returns the files to rewrite: none if nothing is to be removed, or if MERGE has removed it."""
    all_gone = [gone for gone in change.gone if len(gone.known)]
    if all_gone and all(len(gone.known) <= MOST_KEYS for gone in all_gone):
        keys = [(gone.known, gone.ends) for gone in all_gone]
        rewrite = Rewrite.of(catalog.load(change.table), change.branch, keys)
        if rewrite is not None:
            return rewrite
    for gone in all_gone:
        _delete(change, gone)
    return Rewrite(catalog.load(change.table))


def _delete(change: TableChange, gone: Keys) -> None:
    """Removes rows by MERGE.

    A join alone lets Spark skip no files. If all keys are known here, their bounds are added as literals, by
    which it does, and the keys are broadcast, so that the files' rows need no shuffle.
    """
    names = [name for name, _ in gone.columns]
    same = [f"t.{quoted(name)} = s.{quoted(name)}" for name in names]
    rows = as_spark(gone.rows)
    frame: DataFrame
    if len(gone.known) <= MOST_KEYS:
        same += [f"t.{bound}" for bound in between(gone.known, gone.columns)]
        frame = F.broadcast(rows.workers.given(gone.known.select(names)).frame)
    else:
        frame = as_spark(chosen(rows, names)).frame
    if gone.ends is not None:
        same.append(gone.ends.sql)
    # The files are large, however small the window.
    for_small_data(frame.sparkSession, small=False)
    iceberg.delete(frame, change.table, change.branch, " AND ".join(same))


def replace_window(rows: Rows, table: str, window_id: str, since: int | None) -> None:
    """Replaces the window's rows on main. May be repeated.

    `since`: main before the rows were read; None if it had no snapshot. Raises SourceUnavailable if another
    process has written main since: it may have written the same rows.
    """
    written = as_spark(rows).workers.answers([_to_be_written(rows, catalog.load(table))])
    new_files, iceberg_table = files_in(written[0]), catalog.load(table)
    main = iceberg_table.current_snapshot()
    if (main and main.snapshot_id) != since:
        raise _written_meanwhile(table)
    old = list(iceberg_table.scan(scans.of_window(window_id)).plan_files())
    if not all(task.residual == AlwaysTrue() for task in old):
        raise ConfigError(
            f"{table} has files with rows of several windows: replacing one window would remove the "
            "others' rows",
            "find out who has written them; only changeledger may write its raw tables",
        )
    if new_files or old:
        try:
            commit(iceberg_table, refs.MAIN, new_files, [task.file for task in old], alone=True)
        except (CommitFailedException, ValidationException) as error:
            raise _written_meanwhile(table) from error


def _written_meanwhile(table: str) -> SourceUnavailable:
    return SourceUnavailable(
        f"another process wrote {table} at the same time",
        "nothing: the next try reads the window again and replaces whatever the table has of it",
    )


def between(keys: pa.Table, columns: Sequence[tuple[str, str]]) -> list[str]:
    """Returns a condition in Spark SQL for each key column: that a row is within the bounds of the keys.

    Iceberg skips files by these conditions, but not by a join, or by a list of more than 200 values. Columns
    without a value, of bytes or of floating-point numbers get none. `columns`: names and Spark types.
    """
    conditions = []
    for name, kind in columns:
        # NaN is in no range.
        if kind in {"float", "double"} or pa.types.is_binary(keys.schema.field(name).type):
            continue
        ends = pc.min_max(keys.column(name)).as_py()
        if ends["min"] is not None:
            least, greatest = (f"CAST({literal(str(ends[end]))} AS {kind})" for end in ("min", "max"))
            conditions.append(f"{quoted(name)} BETWEEN {least} AND {greatest}")
    return conditions
