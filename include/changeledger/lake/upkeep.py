"""Maintenance of lake tables: deletes rows and files that are no longer needed, and compacts files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from changeledger.lake import catalog, iceberg, refs, writes
from changeledger.model.change import literal
from changeledger.spark.rows import Workers

_MANIFEST_SIZE: Final = "commit.manifest.target-size-bytes"
# Later than any snapshot, even one of a machine whose clock is ahead.
END_OF_TIME: Final = datetime(9999, 1, 1, tzinfo=UTC)


def delete_where(spark: SparkSession, table: str, condition: str) -> int:
    """Deletes rows of main that meet the condition. Returns how many; writes nothing if there are none."""
    count = count_where(spark, table, condition)
    if count:
        spark.sql(f"DELETE FROM {table} WHERE {condition}")  # noqa: S608 - of our own names and literals
    return count


def unset_where(spark: SparkSession, table: str, column: str, condition: str) -> None:
    """Sets the column to NULL in rows of main that meet the condition; writes nothing if there are none."""
    if count_where(spark, table, condition):
        spark.sql(f"UPDATE {table} SET {column} = NULL WHERE {condition}")  # noqa: S608 - as above


def count_where(spark: SparkSession, table: str, condition: str) -> int:
    """Counts rows of main by Spark SQL, since the condition may have subqueries of other tables."""
    (row,) = spark.sql(f"SELECT count(*) FROM {table} WHERE {condition}").collect()  # noqa: S608 - as above
    return int(row[0])


def runs_of(spark: SparkSession, raw: str) -> set[str]:
    """Returns the runs that have rows in a raw table, from its metadata."""
    rows = spark.table(f"{raw}.partitions").select("partition.window_id").distinct().collect()
    return {row["window_id"] for row in rows}


def retain_only(spark: SparkSession, raw: str, runs: Sequence[str], kept: Mapping[str, DataFrame]) -> int:
    """Removes the rows of these runs from a raw table, except the rows in `kept`.

    Returns how many runs have lost rows.
    """
    whole = [run for run in runs if run not in kept]
    if whole:
        names = ", ".join(map(literal, whole))
        spark.sql(f"DELETE FROM {raw} WHERE window_id IN ({names})")  # noqa: S608 - literals
    changed = len(whole)
    workers = Workers(lambda: spark)
    for run, rows in kept.items():
        since = refs.snapshot_of(raw)
        if rows.count() < iceberg.read(spark, raw).where(F.col("window_id") == run).count():
            writes.replace_window(workers.of_spark(rows), raw, run, since)
            changed += 1
    return changed


def compact(spark: SparkSession, table: str) -> None:
    """Rewrites many small files of main into few large ones, without their deleted rows."""
    specs = spark.sql(f"SELECT DISTINCT spec_id FROM {table}.delete_files").collect()  # noqa: S608 - our own names
    files = "map('delete-file-threshold', '1')"
    if len(specs) > 1:
        # Iceberg mixes up delete files of different partition specs as if they were of one partition.
        files = "map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')"
    spark.sql(f"CALL lake.system.rewrite_data_files(table => '{table}', options => {files})")
    # Iceberg keeps a delete file while any data file is older than it, even if it only names removed files.
    deletes = "map('rewrite-all', 'true')"
    spark.sql(f"CALL lake.system.rewrite_position_delete_files(table => '{table}', options => {deletes})")


def forget_removed_files(spark: SparkSession, table: str) -> None:
    """Rewrites manifests of main that name removed data files.

    Such manifests have the bounds of these files' columns, which are values of rows.
    """
    _forget_size(spark, table)
    rows = spark.sql(
        f"SELECT partition_spec_id AS spec, sum(length) AS size, count(*) AS manifests "  # noqa: S608 - our own names
        f"FROM {table}.manifests WHERE content = 0 GROUP BY partition_spec_id "
        "HAVING sum(deleted_data_files_count) > 0"
    ).collect()
    for row in rows:
        # Iceberg does not rewrite a single manifest that is not larger than the target size.
        smaller = f"'{_MANIFEST_SIZE}' = '{row['size'] - 1}'"
        if row["manifests"] == 1:
            spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({smaller})")
        spark.sql(f"CALL lake.system.rewrite_manifests(table => '{table}', spec_id => {row['spec']})")
        _forget_size(spark, table)


def _forget_size(spark: SparkSession, table: str) -> None:
    """Removes the target size of manifests, also one left by a killed process: it would keep them small."""
    if _MANIFEST_SIZE in catalog.load(table).properties:
        spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('{_MANIFEST_SIZE}')")


def expire(spark: SparkSession, table: str, before: datetime) -> None:
    """Expires older snapshots that no branch or tag needs, and deletes the files that only they have."""
    if not _has_unneeded(catalog.load(table), before):
        # Iceberg would still list all files.
        return
    at = before.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    spark.sql(f"CALL lake.system.expire_snapshots(table => '{table}', older_than => TIMESTAMP '{at}')")


def _has_unneeded(table: Table, before: datetime) -> bool:
    heads = {ref.snapshot_id for ref in table.metadata.refs.values()}
    return any(
        snapshot.timestamp_ms < before.timestamp() * 1000 and snapshot.snapshot_id not in heads
        for snapshot in table.metadata.snapshots
    )


def remove_strays(spark: SparkSession, table: str, before: datetime) -> None:
    """Removes earlier files that are in no snapshot, which are left by interrupted writes."""
    at = before.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    # Hadoop lists files but has no S3 here; there, Iceberg's own FileIO lists them.
    by_prefix = str(catalog.load(table).location().startswith("s3")).lower()
    spark.sql(
        f"CALL lake.system.remove_orphan_files(table => '{table}', older_than => TIMESTAMP '{at}', "
        f"prefix_listing => {by_prefix})"
    )
