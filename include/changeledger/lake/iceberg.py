"""Iceberg's tables and their branches, as Spark reads and writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from typing import NamedTuple

from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from changeledger.lake import catalog, refs
from changeledger.lake.known_manifests import MOST_TABLES
from changeledger.model.change import literal, quoted
from changeledger.model.sql_type import holds

Columns = Sequence[tuple[str, str]]


def widen(spark: SparkSession, table: str, columns: Columns) -> None:
    """Add the columns, and the fields of structs, that the table lacks, as nullable ones; widen types.

    A branch has no schema of its own in Iceberg: they show on main at once, empty. No type becomes narrower
    again: one that a run has widened which was not released, or was taken back, stays.
    """
    wanted = schema_of(tuple(columns))
    for path, kind, stored in _different(_schema(catalog.load(table)), wanted):
        name = ".".join(map(quoted, path))
        if stored is None:
            spark.sql(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")
        elif not holds(stored, kind):
            spark.sql(f"ALTER TABLE {table} ALTER COLUMN {name} TYPE {kind}")


def has_columns(table: Table, columns: Columns) -> bool:
    """Has the table these columns and no others, so that neither `narrow` nor `widen` would change it?

    Spark, which reads their types, has to be started before.
    """
    stored, wanted = _schema(table), schema_of(tuple(columns))
    has_more = any(other.stored is None for other in _different(wanted, stored))
    return not has_more and not any(_different(stored, wanted))


def narrow(spark: SparkSession, table: str, columns: Columns) -> bool:
    """Drop the columns, and the fields of structs, that no release has, where `columns` lacks them or has
    another type: a run has added them that was never released. True if there were some. A table of which
    nothing is released goes itself, with all that was built of it."""
    loaded = catalog.load(table)
    current, wanted = _schema(loaded), schema_of(tuple(columns))
    other = [field.path for field in _different(wanted, current) if field.stored is None]
    other += [field.path for field in _different(current, wanted) if field.stored is not None]
    if not other:
        return False
    published = refs.head(loaded)
    if published is None:
        spark.sql(f"DROP TABLE {table} PURGE")
        return True
    added = set(refs.added_since(loaded, published))
    gone = [path for path in other if path in added]
    for path in gone:
        spark.sql(f"ALTER TABLE {table} DROP COLUMN {'.'.join(map(quoted, path))}")
    return bool(gone)


def _schema(table: Table) -> StructType:
    """The table's columns as Spark has them."""
    arrow_schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    return from_arrow_schema(arrow_schema, prefer_timestamp_ntz=True)


@lru_cache(maxsize=MOST_TABLES)
def schema_of(columns: tuple[tuple[str, str], ...]) -> StructType:
    """The columns as Spark has them."""
    struct = StructType.fromDDL(", ".join(f"{quoted(name)} {kind}" for name, kind in columns))
    assert isinstance(struct, StructType), "the DDL of columns is that of a struct"
    return struct


class _Difference(NamedTuple):
    """A field that a schema lacks, or has in another type (`stored`)."""

    path: tuple[str, ...]
    kind: str
    stored: str | None


def _different(schema: StructType, wanted: StructType) -> Iterator[_Difference]:
    """The fields of `wanted` that `schema` lacks or has in another type."""
    known = {field.name.lower(): field for field in schema}
    for field in wanted:
        old = known.get(field.name.lower())
        kind = field.dataType.simpleString()
        if old is None:
            yield _Difference((field.name,), kind, None)
        elif isinstance(field.dataType, StructType) and isinstance(old.dataType, StructType):
            for inner in _different(old.dataType, field.dataType):
                yield inner._replace(path=(old.name, *inner.path))
        # Iceberg has no type narrower than int; other types are the contract's to compare.
        elif kind != old.dataType.simpleString() and kind != "smallint":
            yield _Difference((old.name,), kind, old.dataType.simpleString())


def on_branch(table: str, branch: str) -> str:
    return f"{table}.branch_{branch}"


def read(
    spark: SparkSession,
    table: str,
    branch: str | None = None,
    *,
    at: str | None = None,
    snapshot: int | None = None,
) -> DataFrame:
    """Main, a branch, or the table `at` a tag or as of a snapshot."""
    if at is not None:
        return spark.table(f"{table}.tag_{at}")
    if snapshot is not None:
        return spark.read.option("versionAsOf", str(snapshot)).table(table)
    return spark.table(on_branch(table, branch) if branch else table)


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of all."""
    return reduce(DataFrame.unionByName, frames)


def fresh_branch(spark: SparkSession, table: str, branch: str) -> Table:
    """The branch as main is now, whatever an earlier attempt left on it. Returns the table before."""
    loaded = catalog.load(table)
    published = refs.head(loaded)
    if published is None:
        refs.drop(table, [branch])
        # Of a table that has no snapshot, only Iceberg's own code makes a branch.
        spark.sql(f"ALTER TABLE {table} CREATE BRANCH {quoted(branch)}")
    else:
        refs.set_branch(table, branch, published)
    return loaded


def empty(spark: SparkSession, table: str, branch: str) -> None:
    """Take all rows off the branch, in a commit that stands on what it was."""
    if refs.snapshot_of(table, branch) is not None:
        spark.sql(f"DELETE FROM {on_branch(table, branch)}")  # noqa: S608 - our own names


def append(rows: DataFrame, table: str, branch: str | None = None) -> None:
    rows.writeTo(on_branch(table, branch) if branch else table).append()


def put(rows: DataFrame, table: str) -> int | None:
    """The rows in place of the table, whatever its columns were; returns its snapshot, from which they can be
    read until it is expired."""
    rows.writeTo(table).using("iceberg").createOrReplace()
    return refs.snapshot_of(table)


def replace_partition(rows: DataFrame, table: str, column: str, *values: str | int) -> None:
    """Write the rows of these partitions in place of those that are there: twice is as good as once."""
    rows.writeTo(table).overwrite(F.col(column).isin(*values))


def replace(rows: DataFrame, table: str, branch: str) -> None:
    """Write the rows in place of all that the branch has."""
    rows.writeTo(on_branch(table, branch)).overwrite(F.lit(True))


def delete_changes(changes: DataFrame, table: str, branch: str, windows: Iterable[str]) -> None:
    """Take ledger rows off the branch, by `change_id`, `source_position`, `operation` and `window_id`.

    `windows`: all that the rows have. As literals they let Spark pass over the files of others.
    """
    same = "t.change_id = s.change_id AND t.source_position = s.source_position AND t.operation = s.operation"
    near = ", ".join(map(literal, sorted(windows)))
    delete(changes, table, branch, f"{same} AND t.window_id = s.window_id AND t.window_id IN ({near})")


def delete_records(records: DataFrame, table: str, branch: str) -> None:
    """Take the rows of these `window_id` and `source_position` off the branch."""
    same = "t.window_id = s.window_id AND t.source_position = s.source_position"
    delete(records, table, branch, same)


def delete(rows: DataFrame, table: str, branch: str, on: str) -> None:
    """Take rows off the branch (`t`) that match one of `rows` (`s`)."""
    # A view of its own for each table: tables are written at the same time.
    view = "merge_into_" + table.replace(".", "_")
    rows.createOrReplaceTempView(view)
    target = f"{on_branch(table, branch)} t"
    rows.sparkSession.sql(f"MERGE INTO {target} USING {view} s ON {on} WHEN MATCHED THEN DELETE")


def update(spark: SparkSession, table: str, branch: str, cells: Mapping[str, str]) -> None:
    """Set columns of all rows of the branch to what the expressions give."""
    values = ", ".join(f"{quoted(name)} = {value}" for name, value in cells.items())
    spark.sql(f"UPDATE {on_branch(table, branch)} SET {values}")  # noqa: S608 - names quoted above
