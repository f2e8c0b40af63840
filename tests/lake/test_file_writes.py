"""Open and closed intervals are in separate files, whoever writes them, and stay separate."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.expressions import IsNull
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField
from pyspark.sql import SparkSession

from changeledger.kernels.arrow import INSTANT
from changeledger.lake import catalog, file_writes, iceberg, new_tables, refs, upkeep
from changeledger.lake.conditions import is_equal
from changeledger.lake.file_scans import Scan
from changeledger.lake.file_writes import (
    FILES,
    Writing,
    Written,
    commit,
    files_as_rows,
    files_in,
    require_distinct_names,
)
from changeledger.lake.leaving import Ends
from changeledger.lake.writes import Keys, TableChange, append, apply
from changeledger.model import change
from changeledger.model.errors import ContractError
from changeledger.spark.rows import SparkRows, Workers

SCHEMA = pa.schema([("id", pa.int32()), ("_valid_to", INSTANT)])
NOON = datetime(2026, 8, 7, 12, tzinfo=UTC)
# At the epoch, a bucket's number could be mistaken for none.
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BRANCH = "work"
NUMBERS = count()


@pytest.fixture
def table(spark: SparkSession) -> str:
    name = f"lake.apart.t{next(NUMBERS)}"
    new_tables.create(name, SCHEMA, change.HISTORY_PARTITIONS)
    iceberg.fresh_branch(spark, name, BRANCH)
    return name


def rows(*ids: int) -> pa.Table:
    """Two closed rows and one open row for each id."""
    cells = [{"id": key, "_valid_to": at} for key in ids for at in (EPOCH, None, NOON)]
    return pa.Table.from_pylist(cells, SCHEMA)


def sizes(name: str, branch: str = BRANCH) -> tuple[list[int], list[int]]:
    """Returns the row counts of the files with open intervals, and of the others."""
    at = refs.snapshot_of(name, branch)
    tasks = list(catalog.load(name).scan(snapshot_id=at).plan_files())
    with_open = list(catalog.load(name).scan(IsNull("_valid_to"), snapshot_id=at).plan_files())
    paths = {task.file.file_path for task in with_open}
    others = [task.file.record_count for task in tasks if task.file.file_path not in paths]
    return sorted(task.file.record_count for task in with_open), sorted(others)


def content(spark: SparkSession, name: str, where: str = "true") -> list[tuple[Any, ...]]:
    stored = iceberg.read(spark, name, BRANCH).where(where).select("id", "_valid_to")
    return sorted(map(repr, stored.toArrow().to_pylist()))


def given(spark: SparkSession, *ids: int) -> SparkRows:
    return Workers(lambda: spark).given(rows(*ids))


@pytest.mark.parametrize("is_of_spark", [False, True])
def test_open_and_closed_rows_are_written_apart(spark: SparkSession, table: str, is_of_spark: bool) -> None:
    whole, workers = rows(1, 2, 3), Workers(lambda: spark)
    came = workers.given(whole)
    if is_of_spark:
        frame = spark.createDataFrame(whole.to_pylist(), "id int, _valid_to timestamp").coalesce(1)
        came = workers.of_spark(frame, len(whole), SCHEMA)
    append(came, table, BRANCH)
    assert sizes(table) == ([3], [6])
    assert content(spark, table) == sorted(map(repr, whole.to_pylist()))
    assert len(content(spark, table, "_valid_to IS NULL")) == 3
    assert len(content(spark, table, f"_valid_to = timestamp '{NOON:%Y-%m-%d %H:%M:%S}Z'")) == 3


def test_files_of_closed_rows_are_not_written_again(spark: SparkSession, table: str) -> None:
    append(given(spark, 1, 2, 3), table, BRANCH)
    append(given(spark, 4), table, BRANCH)
    at = refs.snapshot_of(table, BRANCH)
    workers = Workers(lambda: spark)
    ids = pa.table({"id": pa.array([1, 4], pa.int32())})
    keys = Keys(workers.given(ids), [("id", "int")], ids, Ends("_valid_to"))
    apply(workers, [TableChange(table, BRANCH, workers.nothing(SCHEMA), [keys])])
    written = {task.file.file_path for task in catalog.load(table).scan(snapshot_id=at).plan_files()}
    remaining = catalog.load(table).scan(snapshot_id=refs.snapshot_of(table, BRANCH)).plan_files()
    assert len(written & {task.file.file_path for task in remaining}) == 2
    assert sizes(table) == ([2], [2, 6])
    assert content(spark, table, "_valid_to IS NULL") == [
        repr({"id": key, "_valid_to": None}) for key in (2, 3)
    ]


def test_maintenance_does_not_put_them_together(spark: SparkSession, table: str) -> None:
    for number in range(6):
        append(given(spark, number), table, BRANCH)
    spark.sql(f"DELETE FROM {iceberg.on_branch(table, BRANCH)} WHERE id = 5 AND _valid_to IS NULL")
    refs.set_branch(table, refs.MAIN, refs.snapshot_of(table, BRANCH) or 0)
    before = content(spark, table)
    assert len(before) == 17
    upkeep.compact(spark, table)
    assert sizes(table, refs.MAIN) == ([5], [12])
    refs.set_branch(table, BRANCH, refs.snapshot_of(table) or 0)
    assert content(spark, table) == before


def test_maintenance_of_a_table_that_has_begun_to_put_them_apart(spark: SparkSession) -> None:
    """Deletes from before and after the change of partitioning do not belong to one partition."""
    name = "lake.apart.begun"
    new_tables.create(name, SCHEMA)
    for before in (True, False):
        spark.sql(f"INSERT INTO {name} SELECT id, NULL FROM range(10) t(id)")
        spark.sql(f"INSERT INTO {name} SELECT id, TIMESTAMP '2026-08-07' FROM range(10) t(id)")
        spark.sql(f"DELETE FROM {name} WHERE id = {int(before)}")
        if before:
            spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD bucket(1, _valid_to)")
            spark.sql(f"REFRESH TABLE {name}")
    assert len(spark.sql(f"SELECT DISTINCT spec_id FROM {name}.delete_files").collect()) == 2
    upkeep.compact(spark, name)
    assert spark.sql(f"SELECT * FROM {name}.delete_files").isEmpty()
    assert spark.table(name).where("id < 2").count() == 2, "the second delete took the rows of before, too"
    assert spark.table(name).count() == 34


def test_columns_of_one_name_in_data_files_are_refused_by_name() -> None:
    backslash, escaped = (NestedField(at, name, LongType()) for at, name in enumerate(("\\", "_x5C"), 1))
    require_distinct_names(Schema(backslash))
    with pytest.raises(ContractError, match=r"two columns have the same name in data files: .*_x5C"):
        require_distinct_names(Schema(backslash, escaped))


def in_memory(folder: Path, columns: pa.Schema, properties: dict[str, str] | None = None) -> Table:
    store = InMemoryCatalog("files", warehouse=folder.as_uri())
    store.create_namespace("lake")
    return store.create_table("lake.t", columns, properties=properties or {})


def with_value(stored: Table, name: str, value: Any) -> list[dict[str, Any]]:
    scan = Scan.of(stored, is_equal(name, value), stored.schema().as_arrow())
    return [row for part in scan.parts for rows in scan.rows(part) for row in rows.to_pylist()]


def test_a_text_whose_upper_bound_would_be_half_a_pair_is_written_without_bounds(tmp_path: Path) -> None:
    """Regression for apache/iceberg-python#3880.

    U+D7FF as the last character of an upper bound is followed by a surrogate.
    """
    columns = pa.schema([("name", pa.string()), ("id", pa.int64())])
    stored = in_memory(tmp_path, columns)
    texts = ["a" * 15 + "\ud7ff" + "b", "a" * 15 + "\ue000" + "b", "z"]
    of_text = [Writing.into(stored).files(pa.table([[text], [1]], schema=columns)) for text in texts]
    assert [bool(file.upper_bounds) for (file,) in of_text] == [False, True, True]
    commit(stored, refs.MAIN, [file for (file,) in of_text])
    for text in texts:
        assert [row["name"] for row in with_value(stored, "name", text)] == [text]


@pytest.mark.parametrize(("kind", "letter"), [(pa.string(), "y"), (pa.binary(), b"y")])
def test_a_long_value_is_found_in_a_file_of_several_row_groups(
    kind: pa.DataType, letter: Any, tmp_path: Path
) -> None:
    """Row groups' bounds must not become the file's if one of them is missing.

    A row group has no bounds for a value of more than 4,096 bytes (apache/parquet-cpp#465), and those of the
    others are not the file's (trinodb/trino#19052).
    """
    columns = pa.schema([("note", kind), ("id", pa.int64())])
    stored = in_memory(tmp_path, columns, {"write.parquet.row-group-limit": "2"})
    letters = [letter * 2, letter * 3, letter * 5_000, letter, letter * 4, None]
    (file,) = Writing.into(stored).files(pa.table([pa.array(letters, kind), [*range(6)]], schema=columns))
    assert [*file.lower_bounds] == [*file.upper_bounds] == [2], "of ids, which are short"
    (short,) = Writing.into(stored).files(pa.table([pa.array([letter * 4_096], kind), [0]], schema=columns))
    assert [*short.upper_bounds] == [1, 2]
    commit(stored, refs.MAIN, [file])
    for place, value in enumerate(letters[:5]):
        assert [row["id"] for row in with_value(stored, "note", value)] == [place]


def test_what_a_bucket_has_is_written_in_its_task(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task writes files of limited size, and none without rows. The kernel's other outputs stay."""
    monkeypatch.setattr(file_writes, "_ROWS_OF_FILE", 4)
    kernel = Written(lambda tables: {**tables, "more": rows(9)}, {"new": Writing.into(catalog.load(table))})
    outputs = kernel.outputs({"new": SCHEMA, "more": SCHEMA})
    assert outputs == {"new": FILES, "more": SCHEMA}
    given = kernel({"new": pa.concat_tables(rows(key) for key in (1, 2, 3))})
    assert given["more"] == rows(9)
    assert given["new"].schema == FILES
    # Six rows, then three. The open ones are in their own files.
    assert sorted(given["new"].column("record_count").to_pylist()) == [1, 2, 2, 4]
    assert len(kernel({"new": rows()})["new"]) == 0


def test_files_come_back_from_workers_as_they_were(spark: SparkSession, table: str) -> None:
    """Files keep all of Iceberg's metadata: bounds, counts, the partition. NULL is a partition of its own."""
    iceberg.widen(spark, table, [("id", "int"), ("note", "string"), ("_valid_to", "timestamp")])
    some = pa.table({"note": pa.array(["ä" * 30, None, "b"]), **{n: rows(1).column(n) for n in SCHEMA.names}})
    files = Writing.into(catalog.load(table)).files(some)
    assert {file.partition[0] for file in files} == {0, None}
    again = files_in(files_as_rows(files))
    assert [repr(file) for file in again] == [repr(file) for file in files]
