"""This process reads, writes and rewrites data files with the results of Spark and pyiceberg."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.expressions import AlwaysTrue, GreaterThan
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from changeledger.lake import catalog, comments, iceberg, leaving, new_tables, refs, rewrites, scans
from changeledger.lake.file_scans import Scan
from changeledger.lake.leaving import Ends
from changeledger.lake.writes import Keys, TableChange, apply
from changeledger.model.change import quoted
from changeledger.model.comments import Comments
from changeledger.spark.rows import Workers

COLUMNS = (("id", "int"), ("a`b.c", "string"), ("image", "struct<x:int,y:string>"), ("gone_at", "timestamp"))
IMAGE = pa.struct([("x", pa.int32()), ("y", pa.string())])
SCHEMA = pa.schema([("id", pa.int32()), ("a`b.c", pa.string()), ("image", IMAGE)])


@pytest.fixture
def table(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """Ten rows in two files."""
    name = f"lake.files.{request.node.name.partition('[')[0]}"
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.files")
    new_tables.create(name, to_arrow_schema(iceberg.schema_of(tuple(COLUMNS))))
    kinds = ", ".join(f"{quoted(column)} {kind}" for column, kind in COLUMNS)
    for first in (0, 5):
        rows = [(n, f"text {n}", (n, "y") if n % 2 else None, None) for n in range(first, first + 5)]
        iceberg.append(spark.createDataFrame(rows, kinds).coalesce(1), name)
    yield name
    spark.sql(f"DROP TABLE {name}")


def read(name: str, schema: pa.Schema = SCHEMA, where: Any = None, **options: Any) -> list[dict[str, Any]]:
    scan = Scan.of(catalog.load(name), where or AlwaysTrue(), schema, **options)
    return (
        pa.Table.from_batches([rows for part in scan.parts for rows in scan.rows(part)], schema)
        .sort_by("id")
        .to_pylist()
    )


def test_comments_are_written_where_they_differ(spark: SparkSession, table: str) -> None:
    columns = {("a`b.c",): 'it\'s a "name"', ("image", "x"): "a field", ("gone_at",): "UTC"}
    comments.write(table, Comments("All of it", columns))
    first = catalog.load(table).metadata_location
    comments.write(table, Comments("All of it", columns))
    assert catalog.load(table).metadata_location == first
    iceberg.widen(spark, table, [*COLUMNS, ("later", "int")])
    described = {row["col_name"]: row["comment"] for row in spark.sql(f"DESCRIBE TABLE {table}").collect()}
    assert {name: described[name] for name in ("id", "a`b.c", "gone_at", "later")} == {
        "id": None, "a`b.c": "it's a \"name\"", "gone_at": "UTC", "later": None,
    }  # fmt: skip
    assert catalog.load(table).schema().find_field("image.x").doc == "a field"
    extended = spark.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()
    assert "All of it" in {row["data_type"] for row in extended if row["col_name"] == "Comment"}
    assert [row["id"] for row in read(table)] == list(range(10))


def take_off(spark: SparkSession, name: str, ids: list[int], ends: Ends | None = None) -> None:
    workers = Workers(lambda: spark)
    known = pa.table({"id": pa.array(ids, pa.int32())})
    keys = Keys(workers.given(known), COLUMNS[:1], known, ends)
    apply(workers, [TableChange(name, "work", workers.nothing(SCHEMA), [keys])])


def test_rows_are_those_of_spark(spark: SparkSession, table: str) -> None:
    scanned = read(table)
    assert [row["id"] for row in scanned] == list(range(10))
    assert scanned[1] == {"id": 1, "a`b.c": "text 1", "image": {"x": 1, "y": "y"}}
    assert scanned[2]["image"] is None


def test_large_rows_weigh_as_much_as_many(tmp_path: Path) -> None:
    """A bucket has 50,000 usual rows. That many rows of 50 KB exceed 2 GiB, which no Arrow array can hold."""
    columns = pa.schema([("id", pa.int32()), ("document", pa.binary())])
    store = InMemoryCatalog("large", warehouse=tmp_path.as_uri())
    store.create_namespace("lake")
    stored = store.create_table("lake.large", columns)
    # Random bytes, which cannot be compressed.
    documents = [np.random.default_rng(at).bytes(50_000) for at in range(100)]
    stored.append(pa.table([pa.array(range(100), pa.int32()), documents], schema=columns))
    stored.append(pa.table([pa.array(range(20_000), pa.int32()), [b""] * 20_000], schema=columns))
    assert sorted(Scan.of(stored, AlwaysTrue(), columns).weights) == [
        pytest.approx(100 * 50_000 / 1024, rel=0.01), 20_000,
    ]  # fmt: skip


def test_a_struct_can_be_read_in_part(table: str) -> None:
    narrow = pa.schema([("id", pa.int32()), ("image", pa.struct([("y", pa.string())]))])
    assert read(table, narrow)[1:3] == [{"id": 1, "image": {"y": "y"}}, {"id": 2, "image": None}]


def test_positions_that_are_deleted_are_passed_over(spark: SparkSession, table: str) -> None:
    spark.sql(f"DELETE FROM {table} WHERE id IN (1, 7)")
    assert any(task.delete_files for task in catalog.load(table).scan().plan_files())
    assert [row["id"] for row in read(table)] == [0, 2, 3, 4, 5, 6, 8, 9]
    assert [row["id"] for row in read(table, where=GreaterThan("id", 5))] == [6, 8, 9]


def test_a_snapshot_is_read_as_it_is_whatever_was_planned_before(spark: SparkSession, table: str) -> None:
    first = refs.snapshot_of(table)
    assert first is not None
    assert [row["id"] for row in read(table, snapshot=first)] == list(range(10))
    # Files of other rows are skipped, in this snapshot and in the next one.
    assert [row["id"] for row in read(table, where=GreaterThan("id", 7), snapshot=first)] == [8, 9]
    spark.sql(f"INSERT INTO {table} VALUES (10, 'later', NULL, NULL)")
    second = refs.snapshot_of(table)
    assert second is not None
    assert [row["id"] for row in read(table, where=GreaterThan("id", 7), snapshot=second)] == [8, 9, 10]
    assert catalog.with_snapshot(table, first).snapshot_by_id(first) is not None
    assert scans.read(table, AlwaysTrue(), SCHEMA, second).num_rows == 11
    with pytest.raises(ValueError, match="has no snapshot 1"):
        catalog.with_snapshot(table, 1)


def test_a_column_that_is_added_or_renamed_since(spark: SparkSession, table: str) -> None:
    spark.sql(f"ALTER TABLE {table} ADD COLUMN image.z int")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN gone_at TO ended_at")
    wider = pa.struct([("x", pa.int32()), ("y", pa.string()), ("z", pa.int32())])
    columns = [("id", pa.int32()), ("image", wider), ("ended_at", pa.timestamp("us", "UTC"))]
    scanned = read(table, pa.schema(columns))
    assert scanned[1] == {"id": 1, "image": {"x": 1, "y": "y", "z": None}, "ended_at": None}


def test_rows_go_with_their_files_written_again(spark: SparkSession, table: str) -> None:
    refs.set_branch(table, "work", refs.snapshot_of(table) or 0)
    before = {task.file.file_path for task in catalog.load(table).scan().plan_files()}
    take_off(spark, table, [1, 3, 99], Ends("gone_at"))
    rows = iceberg.read(spark, table, "work").orderBy("id").collect()
    assert [row["id"] for row in rows] == [0, 2, 4, 5, 6, 7, 8, 9]
    assert (rows[0]["a`b.c"], rows[3]["image"]["y"]) == ("text 0", "y")
    # The file without any of the keys stays, and main still has all rows.
    work = catalog.load(table).scan(snapshot_id=refs.snapshot_of(table, "work"))
    after = {task.file.file_path for task in work.plan_files()}
    assert len(before & after) == 1
    assert spark.table(table).count() == 10


@pytest.mark.parametrize(("small", "files"), [(5, 2), (6, 1)])
def test_small_files_become_one(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch, small: int, files: int
) -> None:
    monkeypatch.setattr(rewrites, "_SMALL_ROWS", small)
    refs.set_branch(table, "work", refs.snapshot_of(table) or 0)
    take_off(spark, table, [1, 7])
    work = catalog.load(table).scan(snapshot_id=refs.snapshot_of(table, "work"))
    assert len(list(work.plan_files())) == files
    remaining = iceberg.read(spark, table, "work").orderBy("id").collect()
    assert [row["id"] for row in remaining] == [0, 2, 3, 4, 5, 6, 8, 9]


def test_positions_are_deleted_where_some_are_already(spark: SparkSession, table: str) -> None:
    """Iceberg's totals must not count the old deleted positions forever."""
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    refs.set_branch(table, "work", refs.snapshot_of(table) or 0)
    before = {task.file.file_path for task in catalog.load(table).scan().plan_files()}
    take_off(spark, table, [2])
    work = catalog.load(table).scan(snapshot_id=refs.snapshot_of(table, "work"))
    assert {task.file.file_path for task in work.plan_files()} == before
    remaining = iceberg.read(spark, table, "work").orderBy("id").collect()
    assert [row["id"] for row in remaining] == [0, 3, 4, 5, 6, 7, 8, 9]


def test_a_row_that_has_ended_stays(spark: SparkSession, table: str) -> None:
    spark.sql(f"INSERT INTO {table} VALUES (3, 'ended', NULL, TIMESTAMP '2026-08-07 12:00:00')")
    refs.set_branch(table, "work", refs.snapshot_of(table) or 0)
    take_off(spark, table, [3], Ends("gone_at"))
    remaining = iceberg.read(spark, table, "work").where("id = 3").collect()
    assert [row["a`b.c"] for row in remaining] == ["ended"]


@pytest.mark.parametrize("is_merged", [False, True])
def test_rows_that_end_before_stay(spark: SparkSession, is_merged: bool) -> None:
    """Holds both when files are rewritten and, if positions were already deleted, with MERGE."""
    name = f"lake.files.ends_{is_merged}"
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.files")
    columns = [("id", "int"), ("ends", "binary")]
    new_tables.create(name, to_arrow_schema(iceberg.schema_of(tuple(columns))))
    spark.sql(
        f"INSERT INTO {name} VALUES (1, X'01'), (1, X'02'), (1, X'03'), (1, NULL), (2, NULL), (3, X'02')"
    )
    if is_merged:
        spark.sql(f"DELETE FROM {name} WHERE id = 3")
    refs.set_branch(name, "work", refs.snapshot_of(name) or 0)
    workers, schema = Workers(lambda: spark), pa.schema([("id", pa.int32()), ("ends", pa.binary())])
    gone = []
    for ids, ends in (([1, 3], Ends("ends", b"\x02")), ([2], Ends("ends"))):
        known = pa.table({"id": pa.array(ids, pa.int32())})
        gone.append(Keys(workers.given(known), columns[:1], known, ends))
    apply(workers, [TableChange(name, "work", workers.nothing(schema), gone)])
    remaining = iceberg.read(spark, name, "work").collect()
    assert [(row["id"], bytes(row["ends"])) for row in remaining] == [(1, b"\x01")]
    work = catalog.load(name).scan(snapshot_id=refs.snapshot_of(name, "work"))
    assert any(task.delete_files for task in work.plan_files()) == is_merged


def test_a_row_with_the_hash_of_a_key_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hash selects rows that may be deleted. Their values decide."""
    same_hash = np.zeros(1, np.uint64)
    monkeypatch.setattr(leaving, "hash_of", lambda columns: same_hash.repeat(len(columns[0])))
    kinds = pa.schema([("a", pa.int32()), ("b", pa.string())])
    rows = pa.RecordBatch.from_pylist(
        [{"a": a, "b": b} for a in (1, 2, None) for b in ("x", "y", None)], kinds
    )
    keys = pa.Table.from_pylist([{"a": 1, "b": "y"}, {"a": None, "b": "x"}], kinds)
    remaining = leaving.Stays(keys, same_hash, None)(rows).to_pylist()
    assert remaining == [row for row in rows.to_pylist() if row not in keys.to_pylist()]
    assert len(remaining) == 7
