"""This process reads, writes and rewrites data files with the results of Spark and pyiceberg."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.expressions import AlwaysTrue, GreaterThan
from pyspark.sql import SparkSession

from changeledger.kernels.arrow import INSTANT
from changeledger.lake import catalog, comments, iceberg, leaving, new_tables, refs, rewrites, scans
from changeledger.lake.file_scans import Scan
from changeledger.lake.file_writes import Writing, commit
from changeledger.lake.leaving import Ends
from changeledger.lake.writes import Keys, TableChange, apply
from changeledger.model.comments import Comments
from changeledger.spark.rows import Workers

IMAGE = pa.struct([("x", pa.int32()), ("y", pa.string())])
SCHEMA = pa.schema([("id", pa.int32()), ("a`b.c", pa.string()), ("image", IMAGE)])
STORED = SCHEMA.append(pa.field("gone_at", INSTANT))
NUMBERS = count()


@pytest.fixture
def table() -> str:
    """Ten rows in two files."""
    name = f"lake.files.t{next(NUMBERS)}"
    new_tables.create(name, STORED)
    for first in (0, 5):
        rows = [
            {"id": n, "a`b.c": f"text {n}", "image": {"x": n, "y": "y"} if n % 2 else None}
            for n in range(first, first + 5)
        ]
        stored = catalog.load(name)
        commit(stored, refs.MAIN, Writing.into(stored).files(pa.Table.from_pylist(rows, STORED)))
    return name


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
    iceberg.widen(spark, table, [("later", "int")])
    described = {row["col_name"]: row["comment"] for row in spark.sql(f"DESCRIBE TABLE {table}").collect()}
    assert {name: described[name] for name in ("id", "a`b.c", "gone_at", "later")} == {
        "id": None, "a`b.c": "it's a \"name\"", "gone_at": "UTC", "later": None,
    }  # fmt: skip
    assert catalog.load(table).schema().find_field("image.x").doc == "a field"
    extended = spark.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()
    assert "All of it" in {row["data_type"] for row in extended if row["col_name"] == "Comment"}
    assert ids(table) == list(range(10))


def ids(name: str, where: Any = None, snapshot: int | None = None) -> list[int]:
    return [row["id"] for row in read(name, where=where, snapshot=snapshot)]


def work(name: str) -> int | None:
    return refs.snapshot_of(name, "work")


def paths(name: str, snapshot: int | None = None) -> set[str]:
    return {task.file.file_path for task in catalog.load(name).scan(snapshot_id=snapshot).plan_files()}


def take_off(spark: SparkSession, name: str, *gone: tuple[list[int], Ends | None]) -> None:
    """Takes rows with these ids and ends off the branch `work`, which begins at main."""
    refs.set_branch(name, "work", refs.snapshot_of(name) or 0)
    workers, all_keys = Workers(lambda: spark), []
    for numbers, ends in gone:
        known = pa.table({"id": pa.array(numbers, pa.int32())})
        all_keys.append(Keys(workers.given(known), [("id", "int")], known, ends))
    apply(workers, [TableChange(name, "work", workers.nothing(SCHEMA), all_keys)])


def test_rows_are_those_of_spark(spark: SparkSession, table: str) -> None:
    kinds = "id int, `a``b.c` string, image struct<x int, y string>, gone_at timestamp"
    rows = [(10, "text 10", None, None), (11, "text 11", (11, "y"), None)]
    iceberg.append(spark.createDataFrame(rows, kinds).coalesce(1), table)
    scanned = read(table)
    assert [row["id"] for row in scanned] == list(range(12))
    for n in (1, 11):
        assert scanned[n] == {"id": n, "a`b.c": f"text {n}", "image": {"x": n, "y": "y"}}
    assert scanned[2]["image"] is scanned[10]["image"] is None


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
    assert ids(table) == [0, 2, 3, 4, 5, 6, 8, 9]
    assert ids(table, GreaterThan("id", 5)) == [6, 8, 9]


def test_a_snapshot_is_read_as_it_is_whatever_was_planned_before(spark: SparkSession, table: str) -> None:
    first = refs.snapshot_of(table)
    assert first is not None
    assert ids(table, snapshot=first) == list(range(10))
    # Files of other rows are skipped, in this snapshot and in the next one.
    assert ids(table, GreaterThan("id", 7), first) == [8, 9]
    spark.sql(f"INSERT INTO {table} VALUES (10, 'later', NULL, NULL)")
    second = refs.snapshot_of(table)
    assert second is not None
    assert ids(table, GreaterThan("id", 7), second) == [8, 9, 10]
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
    before = paths(table)
    take_off(spark, table, ([1, 3, 99], Ends("gone_at")))
    rows = iceberg.read(spark, table, "work").orderBy("id").collect()
    assert [row["id"] for row in rows] == [0, 2, 4, 5, 6, 7, 8, 9]
    assert (rows[0]["a`b.c"], rows[3]["image"]["y"]) == ("text 0", "y")
    # The file without any of the keys stays, and main still has all rows.
    assert len(before & paths(table, work(table))) == 1
    assert ids(table) == list(range(10))


@pytest.mark.parametrize(("small", "files"), [(5, 2), (6, 1)])
def test_small_files_become_one(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch, small: int, files: int
) -> None:
    monkeypatch.setattr(rewrites, "_SMALL_ROWS", small)
    take_off(spark, table, ([1, 7], None))
    assert len(paths(table, work(table))) == files
    assert ids(table, snapshot=work(table)) == [0, 2, 3, 4, 5, 6, 8, 9]


def test_positions_are_deleted_where_some_are_already(spark: SparkSession, table: str) -> None:
    """Iceberg's totals must not count the old deleted positions forever."""
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    before = paths(table)
    take_off(spark, table, ([2], None))
    assert paths(table, work(table)) == before
    assert ids(table, snapshot=work(table)) == [0, 3, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("is_merged", [False, True])
def test_rows_that_end_before_stay(spark: SparkSession, is_merged: bool) -> None:
    """Holds both when files are rewritten and, if positions were already deleted, with MERGE."""
    name = f"lake.files.ends_{is_merged}"
    new_tables.create(name, pa.schema([("id", pa.int32()), ("ends", pa.binary())]))
    spark.sql(
        f"INSERT INTO {name} VALUES (1, X'01'), (1, X'02'), (1, X'03'), (1, NULL), (2, NULL), (2, X'01'), "
        "(3, X'02')"
    )
    if is_merged:
        spark.sql(f"DELETE FROM {name} WHERE id = 3")
    take_off(spark, name, ([1, 3], Ends("ends", b"\x02")), ([2], Ends("ends")))
    remaining = iceberg.read(spark, name, "work").orderBy("id").collect()
    assert [(row["id"], bytes(row["ends"])) for row in remaining] == [(1, b"\x01"), (2, b"\x01")]
    files = catalog.load(name).scan(snapshot_id=work(name)).plan_files()
    assert any(task.delete_files for task in files) == is_merged


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
