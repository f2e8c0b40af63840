"""Rows offered to a person who has no key at hand."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from changeledger.control import ControlStore
from changeledger.kernels.arrow import ledger_schema
from changeledger.lake import catalog
from changeledger.state import recent
from changeledger.state.life import placed
from changeledger.state.recent import recent_rows
from tests.state.tables import CUSTOMERS, publish
from tests.state.tables import row as change

FEED, TABLE = "shop_cdc", "dbo.customers"
CHANGES = "lake.shop_cdc.dbo_customers_changes"


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ControlStore:
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path))
    return ControlStore(f"sqlite:///{tmp_path}/control.db")


def append(*rows: dict[str, object]) -> None:
    """Appends rows in a file of their own."""
    catalog.load(CHANGES).append(pa.Table.from_pylist(list(rows), ledger_schema(CUSTOMERS)))


def offered(control: ControlStore, most: int = recent.MOST) -> list[tuple[str, str]]:
    return [(row.key["id"], row.operation) for row in recent_rows(placed(control, FEED, TABLE), most)]


def test_each_row_once_by_its_last_change_across_files(control: ControlStore) -> None:
    publish(control, FEED, [change(1, "insert", 1), change(2, "insert", 2)])
    append(change(9, "delete", 2), change(8, "update", 3), change(7, "update", 3))
    append(change(5, "update", 4))
    assert offered(control) == [("2", "delete"), ("3", "update"), ("4", "update"), ("1", "insert")]
    assert offered(control, 2) == [("2", "delete"), ("3", "update")]


def test_a_truncate_is_of_no_row_and_an_empty_ledger_has_none(control: ControlStore) -> None:
    publish(control, FEED, [])
    assert offered(control) == []
    append({**change(3, "truncate", 1), "key": None})
    assert offered(control) == []


def test_no_more_is_read_than_a_page_has_time_for(
    control: ControlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(control, FEED, [change(1, "insert", 1)])
    append(change(2, "insert", 2))
    monkeypatch.setattr(recent, "_READ", 1)
    assert offered(control) == [("2", "insert")]
