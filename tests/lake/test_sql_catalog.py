"""Known metadata is neither read nor copied again, and no reader sees outdated metadata."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import AlwaysTrue, EqualTo
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataUtil

from changeledger.lake import catalog, comments, iceberg, refs
from changeledger.lake.file_scans import Scan, alone
from changeledger.model.comments import Comments

TABLE = "lake.known.t"
ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path))
    monkeypatch.delenv("CHANGELEDGER_CATALOG", raising=False)


@pytest.fixture
def another(tmp_path: Path) -> SqlCatalog:
    """Another process: pyiceberg's own catalog on the same database, with the table and its first rows."""
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"{tmp_path}/warehouse"
    other = SqlCatalog(catalog.NAME, uri=uri, warehouse=warehouse)
    other.create_namespace("known")
    other.create_table("known.t", ROWS.schema).append(ROWS)
    return other


def path(table: Table) -> Path:
    return Path(table.metadata_location.removeprefix("file://"))


def test_a_file_of_metadata_is_read_once(another: SqlCatalog) -> None:
    first = catalog.load(TABLE)
    path(first).unlink()
    assert catalog.load(TABLE).metadata == first.metadata
    assert catalog.exists(TABLE)
    with pytest.raises(FileNotFoundError):
        another.load_table("known.t")


def test_what_this_process_commits_is_not_read_again(another: SqlCatalog) -> None:
    refs.set_tag(TABLE, "release_1", another.load_table("known.t").metadata.refs["main"].snapshot_id)
    committed = catalog.load(TABLE)
    path(committed).unlink()
    assert "release_1" in catalog.load(TABLE).metadata.refs


def test_the_next_look_sees_what_another_process_commits(another: SqlCatalog) -> None:
    before = refs.snapshot_of(TABLE)
    another.load_table("known.t").append(ROWS)
    after = refs.snapshot_of(TABLE)
    assert after != before
    assert after == another.load_table("known.t").metadata.current_snapshot_id
    another.drop_table("known.t")
    assert catalog.find(TABLE) is None


def test_a_commit_on_an_old_look_is_refused(another: SqlCatalog) -> None:
    outdated = catalog.load(TABLE)
    another.load_table("known.t").append(ROWS)
    with pytest.raises(CommitFailedException):
        outdated.manage_snapshots().set_current_snapshot(outdated.metadata.snapshots[0].snapshot_id).commit()


@pytest.mark.parametrize("said", ["the same", "other words"])
def test_comments_that_two_write_at_once(another: SqlCatalog, said: str) -> None:
    """Iceberg's Java library cannot read a table in which two schemas have one id."""
    outdated = catalog.load(TABLE)
    comments.write(TABLE, Comments("all of it", {("id",): "the same"}))
    comments.write(TABLE, Comments("all of it", {("id",): said}), outdated)
    metadata = another.load_table("known.t").metadata
    assert metadata.schema().find_field("id").doc == said
    numbers = [schema.schema_id for schema in metadata.schemas]
    assert len(set(numbers)) == len(numbers)


def test_shared_parts_stay_as_they_are(another: SqlCatalog) -> None:
    """Whatever a transaction does, a table loaded before keeps the metadata of that moment."""
    earlier = catalog.load(TABLE)
    said = earlier.metadata.model_dump_json()
    assert copy.deepcopy(earlier.metadata).schemas is earlier.metadata.schemas
    changed = catalog.load(TABLE)
    changed.append(ROWS)
    with changed.transaction() as transaction:
        transaction.set_properties({"comment": "of the test"})
        with transaction.update_schema() as schema:
            schema.add_column("name", changed.schema().fields[0].field_type)
    refs.set_branch(TABLE, "work", changed.metadata.snapshots[0].snapshot_id)
    with changed.refresh().transaction() as transaction:
        transaction.update_snapshot(branch="work").fast_append().commit()
    refs.drop(TABLE, ["work"])
    assert earlier.metadata.model_dump_json() == said
    newest = catalog.load(TABLE)
    written = TableMetadataUtil.parse_raw(path(newest).read_text("utf-8"))
    assert newest.metadata.model_dump() == written.model_dump(), "as whoever reads the file sees it"


def test_a_manifest_is_read_once(another: SqlCatalog) -> None:
    """Holds for any query on the snapshot.

    Cached entries stay unchanged, whatever a commit does with them.
    """
    loaded = catalog.load(TABLE)
    first = loaded.metadata.snapshots[0].snapshot_id
    files = list(loaded.scan(snapshot_id=first).plan_files())
    for manifest in another.load_table("known.t").inspect.manifests()["path"].to_pylist():
        file = Path(manifest.removeprefix("file://"))
        file.rename(file.with_suffix(".away"))
    assert list(catalog.load(TABLE).scan(snapshot_id=first).plan_files()) == files
    assert not list(loaded.scan(EqualTo("id", 9), snapshot_id=first).plan_files())
    with pytest.raises(FileNotFoundError):
        list(another.load_table("known.t").scan().plan_files())
    loaded.append(ROWS)
    loaded.overwrite(ROWS.slice(0, 1))
    assert [task.file for task in loaded.scan(snapshot_id=first).plan_files()] == [
        task.file for task in files
    ]
    assert len(catalog.load(TABLE).scan().to_arrow()) == 1


def test_what_workers_get_stays_the_same(another: SqlCatalog) -> None:
    """What workers receive stays the same from commit to commit.

    So a worker that stays parses a table's metadata once.
    """
    before = catalog.load(TABLE)
    another.load_table("known.t").append(ROWS)
    after = catalog.load(TABLE)
    for scanned in (before, after):
        scan = Scan.of(scanned, AlwaysTrue(), ROWS.schema)
        same = pickle.loads(pickle.dumps(scan))
        assert replace(same, io=scan.io) == scan
        assert [len(rows) for part in same.parts for rows in same.rows(part)] == [3] * len(scan.parts)
    assert after.metadata != before.metadata
    metadata = [pickle.loads(pickle.dumps(alone(loaded))) for loaded in (before, after)]
    assert metadata[0] is metadata[1]


def test_the_tables_that_are_there(another: SqlCatalog) -> None:
    names = [TABLE, "lake.known.no_table", "lake.no_namespace.t"]
    assert catalog.existing(names) == [TABLE]
    assert list(catalog.look(names)) == [TABLE]


@pytest.mark.usefixtures("spark")
def test_columns_that_need_no_change(another: SqlCatalog) -> None:
    table = catalog.load(TABLE)
    assert iceberg.has_columns(table, [("id", "bigint")])
    assert not iceberg.has_columns(table, [("id", "bigint"), ("name", "string")]), "one to be added"
    assert not iceberg.has_columns(table, [("id", "string")]), "one of another type"
    assert not iceberg.has_columns(table, [("name", "string")]), "one that may be dropped"
