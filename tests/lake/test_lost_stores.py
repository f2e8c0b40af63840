"""The programs in docs/backup.md restore a lost store."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from changeledger.config.settings import PROJECT
from changeledger.lake import catalog

PAGE = (PROJECT / "docs" / "backup.md").read_text("utf-8")


def run_program_of(heading: str) -> None:
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    (program,) = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    exec(program, {})


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("CHANGELEDGER_CATALOG", f'{{"warehouse": "{tmp_path}/warehouse"}}')
    monkeypatch.setenv("CHANGELEDGER_HOME", str(home))
    catalog.create_namespace("shop")
    return catalog._catalog().create_table("shop.t", pa.schema([("id", pa.int64())]))


def test_the_catalog_is_made_anew(table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new catalog equals the lost one, even if an older catalog had been restored before.

    The tables' files still have what that older catalog had lost.
    """
    table.append(pa.table({"id": [1]}))
    restored = table.metadata_location
    for lost in (2, 3):
        table.append(pa.table({"id": [lost]}))
    catalog._catalog().drop_table("shop.t")
    table = catalog._catalog().register_table("shop.t", restored)
    table.append(pa.table({"id": [4]}))
    table.manage_snapshots().create_tag(table.metadata.current_snapshot_id or 0, "release_2").commit()

    new = tmp_path / "new"
    new.mkdir()
    monkeypatch.setenv("CHANGELEDGER_HOME", str(new))
    run_program_of("The catalog is lost")
    anew = catalog.load("lake.shop.t")
    assert anew.metadata == table.metadata
    assert sorted(anew.scan().to_arrow()["id"].to_pylist()) == [1, 4]


def test_a_feed_begins_anew(table: Table) -> None:
    assert catalog.tables("shop") == ["lake.shop.t"]
    run_program_of("The control store is lost")
    assert catalog.tables("shop") == []
