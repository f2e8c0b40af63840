"""Files with false bounds, as earlier versions wrote them, and what CHANGELOG says to do about them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from changeledger.lake import catalog, file_bounds, new_tables, refs
from changeledger.lake.conditions import is_equal
from changeledger.lake.file_writes import Writing, commit

TABLE = "lake.false_bounds.notes"
COLUMNS = pa.schema([("id", pa.int64()), ("note", pa.string())])
# A row group of two rows has no bounds of the third; Iceberg's were those of the other row groups.
NOTES = ["bb", "bbb", "z" * 5_000, "b", "bbbb", None]
CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


def ids_by_spark(spark: SparkSession, note: str) -> list[int]:
    rows = spark.table(TABLE).where(f"note = '{note}'").collect()
    return [row["id"] for row in rows]


def ids_by_pyiceberg(note: str) -> list[int]:
    ids: list[int] = catalog.load(TABLE).scan(is_equal("note", note)).to_arrow().column("id").to_pylist()
    return ids


def test_the_remedy_for_false_bounds(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the engine that CHANGELOG names: Spark's Iceberg writes the bounds anew."""
    new_tables.create(TABLE, COLUMNS)
    stored = catalog.load(TABLE)
    with stored.transaction() as changing:
        changing.set_properties({"write.parquet.row-group-limit": "2"})
    monkeypatch.setattr(file_bounds, "_with_long_values", lambda *_: iter(()))
    rows = pa.table([pa.array([*range(6)], pa.int64()), NOTES], schema=COLUMNS)
    (file,) = Writing.into(stored).files(rows)
    commit(stored, refs.MAIN, [file])
    spark.sql(f"REFRESH TABLE {TABLE}")
    long_note = str(NOTES[2])
    assert (ids_by_spark(spark, long_note), ids_by_pyiceberg(long_note)) == ([], [])
    remedy = "`rewrite_data_files` with `rewrite-all`"
    assert remedy in " ".join(CHANGELOG.read_text("utf-8").split())
    spark.sql(
        f"CALL lake.system.rewrite_data_files(table => '{TABLE}', options => map('rewrite-all', 'true'))"
    )
    for place, note in enumerate(NOTES[:5]):
        assert ids_by_spark(spark, str(note)) == [place]
        assert ids_by_pyiceberg(str(note)) == [place]
