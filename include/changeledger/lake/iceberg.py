"""Reads and writes Iceberg tables and their branches by Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from changeledger.model.change import quoted
from changeledger.model.sql_type import holds

Columns = Sequence[tuple[str, str]]


def widen(spark: SparkSession, table: str, columns: Columns) -> None:
    """Adds columns and struct fields that the table lacks, as nullable ones, and widens types.

    A branch has no schema of its own in Iceberg, so new columns show on main at once, empty. Types never
    become narrower again, even if the run that widened them is not released or is taken back.
    """
    wanted = schema_of(tuple(columns))
    for path, kind, stored in _different(_schema(catalog.load(table)), wanted):
        name = ".".join(map(quoted, path))
        if stored is None:
            spark.sql(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")
        elif not holds(stored, kind):
            spark.sql(f"ALTER TABLE {table} ALTER COLUMN {name} TYPE {kind}")


def has_columns(table: Table, columns: Columns) -> bool:
    """Returns whether the table has exactly these columns, so that `narrow` and `widen` change nothing.

    Needs a running Spark, which parses the types.
    """
    stored, wanted = _schema(table), schema_of(tuple(columns))
    has_more = any(other.stored is None for other in _different(wanted, stored))
    return not has_more and not any(_different(stored, wanted))


def narrow(spark: SparkSession, table: str, columns: Columns) -> bool:
    """Drops columns and struct fields that no release has, if `columns` lacks them or has another type.

    A run that was never released has added them. A table of which nothing is released is dropped itself, with
    all that was built of it. Returns whether anything was dropped.
    """
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
    """Returns the table's columns with Spark's types."""
    arrow_schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    return from_arrow_schema(arrow_schema, prefer_timestamp_ntz=True)


@lru_cache(maxsize=MOST_TABLES)
def schema_of(columns: tuple[tuple[str, str], ...]) -> StructType:
    """Parses the columns' types by Spark's DDL."""
    struct = StructType.fromDDL(", ".join(f"{quoted(name)} {kind}" for name, kind in columns))
    assert isinstance(struct, StructType), "the DDL of columns is that of a struct"
    return struct


class _Difference(NamedTuple):
    """A field that a schema lacks, or has with another type (`stored`)."""

    path: tuple[str, ...]
    kind: str
    stored: str | None


def _different(schema: StructType, wanted: StructType) -> Iterator[_Difference]:
    """Yields the fields of `wanted` that `schema` lacks or has with another type."""
    known = {field.name.lower(): field for field in schema}
    for field in wanted:
        old = known.get(field.name.lower())
        kind = field.dataType.simpleString()
        if old is None:
            yield _Difference((field.name,), kind, None)
        elif isinstance(field.dataType, StructType) and isinstance(old.dataType, StructType):
            for inner in _different(old.dataType, field.dataType):
                yield inner._replace(path=(old.name, *inner.path))
        # Iceberg has no integer narrower than int. Whether types may change is up to the contract.
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
    """Reads main, a branch, the table `at` a tag, or a snapshot of it."""
    if at is not None:
        return spark.table(f"{table}.tag_{at}")
    if snapshot is not None:
        return spark.read.option("versionAsOf", str(snapshot)).table(table)
    return spark.table(on_branch(table, branch) if branch else table)


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """Returns the rows of all frames."""
    return reduce(DataFrame.unionByName, frames)


def fresh_branch(spark: SparkSession, table: str, branch: str) -> Table:
    """Sets the branch to main as it is now, whatever an earlier try left. Returns the table before that."""
    loaded = catalog.load(table)
    published = refs.head(loaded)
    if published is None:
        refs.drop(table, [branch])
        # Only Iceberg's own code can create a branch of a table without snapshots.
        spark.sql(f"ALTER TABLE {table} CREATE BRANCH {quoted(branch)}")
    else:
        refs.set_branch(table, branch, published)
    return loaded


def empty(spark: SparkSession, table: str, branch: str) -> None:
    """Deletes all rows of the branch, in a commit on top of it."""
    if refs.snapshot_of(table, branch) is not None:
        spark.sql(f"DELETE FROM {on_branch(table, branch)}")  # noqa: S608 - our own names


def append(rows: DataFrame, table: str, branch: str | None = None) -> None:
    rows.writeTo(on_branch(table, branch) if branch else table).append()


def put(rows: DataFrame, table: str) -> int | None:
    """Replaces the table by these rows, whatever its columns were.

    Returns the new snapshot, from which the rows can be read until it expires.
    """
    rows.writeTo(table).using("iceberg").createOrReplace()
    return refs.snapshot_of(table)


def replace_partition(rows: DataFrame, table: str, column: str, *values: str | int) -> None:
    """Overwrites these partitions with the rows. May be repeated."""
    rows.writeTo(table).overwrite(F.col(column).isin(*values))


def replace(rows: DataFrame, table: str, branch: str) -> None:
    """Overwrites all rows of the branch."""
    rows.writeTo(on_branch(table, branch)).overwrite(F.lit(True))


def delete_records(records: DataFrame, table: str, branch: str) -> None:
    """Deletes rows from the branch by `window_id` and `source_position`."""
    same = "t.window_id = s.window_id AND t.source_position = s.source_position"
    delete(records, table, branch, same)


def delete(rows: DataFrame, table: str, branch: str, on: str) -> None:
    """Deletes rows of the branch (`t`) that match one of `rows` (`s`) by the condition `on`."""
    # Each table has a view of its own, since tables are written at the same time.
    view = "merge_into_" + table.replace(".", "_")
    rows.createOrReplaceTempView(view)
    target = f"{on_branch(table, branch)} t"
    rows.sparkSession.sql(f"MERGE INTO {target} USING {view} s ON {on} WHEN MATCHED THEN DELETE")


def update(spark: SparkSession, table: str, branch: str, cells: Mapping[str, str]) -> None:
    """Sets columns of all rows of the branch to SQL expressions."""
    values = ", ".join(f"{quoted(name)} = {value}" for name, value in cells.items())
    spark.sql(f"UPDATE {on_branch(table, branch)} SET {values}")  # noqa: S608 - names quoted above
