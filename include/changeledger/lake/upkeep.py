"""What maintenance asks of the lake's tables: rows and files that need not be kept, and few large files."""

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
# After any snapshot, also of a machine whose clock is ahead.
END_OF_TIME: Final = datetime(9999, 1, 1, tzinfo=UTC)


def delete_where(spark: SparkSession, table: str, condition: str) -> int:
    """Delete the rows of main; returns how many there were. Without any, nothing is written."""
    count = count_where(spark, table, condition)
    if count:
        spark.sql(f"DELETE FROM {table} WHERE {condition}")  # noqa: S608 - of our own names and literals
    return count


def unset_where(spark: SparkSession, table: str, column: str, condition: str) -> None:
    """Set the column to NULL in the rows of main that meet the condition. Without any, nothing is written."""
    if count_where(spark, table, condition):
        spark.sql(f"UPDATE {table} SET {column} = NULL WHERE {condition}")  # noqa: S608 - as above


def count_where(spark: SparkSession, table: str, condition: str) -> int:
    """The condition may ask other tables, which only SQL can."""
    (row,) = spark.sql(f"SELECT count(*) FROM {table} WHERE {condition}").collect()  # noqa: S608 - as above
    return int(row[0])


def runs_of(spark: SparkSession, raw: str) -> set[str]:
    """The runs that have rows in a raw table, from its metadata."""
    rows = spark.table(f"{raw}.partitions").select("partition.window_id").distinct().collect()
    return {row["window_id"] for row in rows}


def retain_only(spark: SparkSession, raw: str, runs: Sequence[str], kept: Mapping[str, DataFrame]) -> int:
    """Remove the rows of these runs from a raw table; of a run in `kept` those rows stay.

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
    """Few large files on main for many small ones; deleted rows are taken out of them."""
    specs = spark.sql(f"SELECT DISTINCT spec_id FROM {table}.delete_files").collect()  # noqa: S608 - our own names
    files = "map('delete-file-threshold', '1')"
    if len(specs) > 1:
        # Iceberg takes delete files from before and after the partitions changed for those of one partition.
        files = "map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')"
    spark.sql(f"CALL lake.system.rewrite_data_files(table => '{table}', options => {files})")
    # A delete file stays while a data file is older than it, though it has rows of files that are gone alone.
    deletes = "map('rewrite-all', 'true')"
    spark.sql(f"CALL lake.system.rewrite_position_delete_files(table => '{table}', options => {deletes})")


def forget_removed_files(spark: SparkSession, table: str) -> None:
    """Write manifests of main again that name removed data files: they have the ends of these files' columns,
    which are values of rows."""
    _forget_size(spark, table)
    rows = spark.sql(
        f"SELECT partition_spec_id AS spec, sum(length) AS size, count(*) AS manifests "  # noqa: S608 - our own names
        f"FROM {table}.manifests WHERE content = 0 GROUP BY partition_spec_id "
        "HAVING sum(deleted_data_files_count) > 0"
    ).collect()
    for row in rows:
        # Iceberg leaves one manifest alone that is no larger than one is to be.
        smaller = f"'{_MANIFEST_SIZE}' = '{row['size'] - 1}'"
        if row["manifests"] == 1:
            spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({smaller})")
        spark.sql(f"CALL lake.system.rewrite_manifests(table => '{table}', spec_id => {row['spec']})")
        _forget_size(spark, table)


def _forget_size(spark: SparkSession, table: str) -> None:
    """Also of a process that was killed: small manifests would never become few again."""
    if _MANIFEST_SIZE in catalog.load(table).properties:
        spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('{_MANIFEST_SIZE}')")


def expire(spark: SparkSession, table: str, before: datetime) -> None:
    """Snapshots that are older and that no branch or tag needs, with the files that only they have."""
    if not _has_unneeded(catalog.load(table), before):
        # Iceberg would list all files all the same.
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
    """Files that were written earlier and that no snapshot has: of writes that were broken off."""
    at = before.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    # Files are listed by Hadoop, which has no S3 here, or by Iceberg's own FileIO.
    by_prefix = str(catalog.load(table).location().startswith("s3")).lower()
    spark.sql(
        f"CALL lake.system.remove_orphan_files(table => '{table}', older_than => TIMESTAMP '{at}', "
        f"prefix_listing => {by_prefix})"
    )
