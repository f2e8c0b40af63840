"""docs/backup.md makes a lost catalog anew from the warehouse: the page's own program."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from changeledger.config.settings import PROJECT
from changeledger.lake import catalog

PAGE = (PROJECT / "docs" / "backup.md").read_text("utf-8")


def test_the_catalog_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was, also where an older catalog was restored before: what it had lost has left its files."""
    warehouse = f'{{"warehouse": "{tmp_path}/warehouse"}}'
    monkeypatch.setenv("CHANGELEDGER_CATALOG", warehouse)
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    catalog.create_namespace("shop")
    table = catalog._catalog().create_table("shop.t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    restored = table.metadata_location
    for lost in (2, 3):
        table.append(pa.table({"id": [lost]}))
    catalog._catalog().drop_table("shop.t")
    table = catalog._catalog().register_table("shop.t", restored)
    table.append(pa.table({"id": [4]}))
    table.manage_snapshots().create_tag(table.metadata.current_snapshot_id or 0, "release_2").commit()

    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path / "new"))
    (tmp_path / "new").mkdir()
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    exec(program, {})
    anew = catalog.load("lake.shop.t")
    assert anew.metadata == table.metadata
    assert sorted(anew.scan().to_arrow()["id"].to_pylist()) == [1, 4]
