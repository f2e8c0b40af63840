"""The renames of a migration, without Spark: what is whose column, and what a snapshot is read by."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from changeledger.kernels.arrow import INSTANT
from changeledger.model.errors import ConfigError
from changeledger.stages.migration import names
from changeledger.stages.migration.migrating import rename
from changeledger.storage import catalog, refs, renames
from changeledger.storage.rewrites import without

POSITION = pa.struct([("source", pa.string()), ("offset", pa.int64())])


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path))


def made(name: str, rows: pa.Table, partition: str | None = None) -> str:
    catalog.create_namespace("old")
    there = catalog._catalog().create_table(("old", name), schema=rows.schema)
    if partition is not None:
        with there.update_spec() as update:
            update.add_identity(partition)
    catalog.load(f"lake.old.{name}").append(rows)
    return f"lake.old.{name}"


def test_a_column_of_the_source_gives_way_to_ours() -> None:
    rows = pa.table(
        {
            "run_id": pa.array(["w1"]), "record": pa.array([{"source": "t__ct", "offset": 1}], POSITION),
            "_instance": pa.array(["t__ct"]), "Window_Id": pa.array([7], pa.int32()), "note": pa.array(["x"]),
        }
    )  # fmt: skip
    table = made("raw_dbo_t", rows, "run_id")
    of_table = names.of_feed("raw_dbo_t", rows.schema.names)
    for _ in range(2):
        rename(table, of_table)
        assert renames.columns(table).names == [
            "window_id", "source_position", "_instance", "Window_Id::int", "note"
        ]  # fmt: skip
    there = catalog.load(table)
    assert [field.name for field in there.spec().fields] == ["window_id"]
    (row,) = there.scan("window_id = 'w1'").to_arrow().to_pylist()
    assert (row["window_id"], row["Window_Id::int"], row["source_position"]["offset"]) == ("w1", 7, 1)


def test_a_published_column_that_is_ours_now_is_refused() -> None:
    columns = ["id", "_window_id", "_change_id", "_sort_key", "_gaps", "_run_id"]
    with pytest.raises(ConfigError, match="'_window_id'"):
        names.taken("lake.old.dbo_t", names.of_feed("dbo_t", columns), columns)


@pytest.mark.parametrize(
    ("table", "columns", "expected"),
    [
        ("dbo_record", ["record", "run_id", "_change_id", "_sort_key", "_gaps"], {"_gaps"}),
        ("dbo_t_changes", ["change_id", "sort_key", "after", "ordinal", "record"], {"ordinal", "record"}),
        ("raw", ["run_id", "topic"], {"run_id"}),
        ("quarantine", ["run_id", "record"], {"run_id", "record"}),
        ("pending", ["topic", "record"], set()),
        ("somebody_elses", ["run_id", "record"], set()),
    ],
)
def test_only_our_own_columns_are_renamed(table: str, columns: list[str], expected: set[str]) -> None:
    assert {old for old in names.of_feed(table, columns).columns if old in columns} == expected


def test_a_snapshot_is_continued_once() -> None:
    table = made("dispositions", pa.table({"run_id": ["w1"], "table": ["dbo.t"]}))
    then = refs.snapshot_of(table)
    assert then is not None
    rename(table, names.of_feed("dispositions", ["run_id", "table"]))
    assert catalog.load(table).scan(snapshot_id=then).to_arrow().column_names == ["run_id", "table"]
    head = renames.continued(table, refs.MAIN, then)
    assert head != then
    assert renames.continued(table, refs.MAIN, then) == head
    found = catalog.load(table).scan(snapshot_id=head).to_arrow().to_pylist()
    assert found == [{"window_id": "w1", "table": "dbo.t"}]


def test_a_history_keeps_open_intervals_apart_from_now_on() -> None:
    columns = ["_change_id", "_sort_key", "_gaps", "_next_sort_key"]
    kinds = pa.schema(
        [("id", pa.int32()), *((name, pa.string()) for name in columns), ("_valid_to", INSTANT)]
    )
    noon = datetime(2026, 8, 7, 12, tzinfo=UTC)
    rows = [{"id": 1, "_valid_to": None}, {"id": 1, "_valid_to": noon}, {"id": 2, "_valid_to": None}]
    table = made("dbo_t_history", pa.Table.from_pylist(rows, kinds))
    for _ in range(2):
        rename(table, names.of_feed("dbo_t_history", kinds.names))
        there = catalog.load(table)
        assert [(field.name, str(field.transform)) for field in there.spec().fields] == [
            ("_valid_to_bucket", "bucket[1]")
        ]
    then = refs.snapshot_of(table)
    assert then is not None
    renames.continued(table, refs.MAIN, then)
    # The file that has both is written again as two, once a key is taken out of it.
    assert without(pa.table({"id": pa.array([7, 1], pa.int32())}), (table, refs.MAIN), "_valid_to")
    for where, expected in (("_valid_to IS NULL", 2), ("_valid_to IS NOT NULL", 1)):
        (task,) = catalog.load(table).scan(where).plan_files()
        assert task.file.record_count == 1
        assert catalog.load(table).scan(where).to_arrow().column("id").to_pylist() == [expected]
