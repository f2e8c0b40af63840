"""A small ledger of customers as real Iceberg tables, written by pyiceberg, and its releases."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import load_catalog

from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.kernels.arrow import history_schema, ledger_schema
from changeledger.model.contract import Column, Contract
from changeledger.model.window import Window
from tests.released import DAY, release

CUSTOMERS = Contract(
    table="dbo.customers",
    columns=(
        Column(name="id", type="int", ordinal=1, nullable=False, key_position=1),
        Column(name="name", type="nvarchar(50)", ordinal=2),
        Column(name="photo", type="varbinary(max)", ordinal=3),
    ),
)
HOSTILE = "<script>alert(1)</script>"


def row(number: int, operation: str, key: int, **cells: Any) -> dict[str, Any]:
    """A ledger row, committed at that hour of 31 January."""
    lsn = number.to_bytes(10)
    return {
        "change_id": f"change-{number}", "operation": operation, "key": {"id": key}, "commit_lsn": lsn,
        "change_lsn": lsn, "sort_key": lsn, "committed_at": datetime(2026, 1, 31, number, tzinfo=UTC),
        "window_id": DAY.id,
        "source_position": {"source": "t", "partition": 0, "offset": number, "row": None},
        **cells,
    }  # fmt: skip


def life_of_one() -> list[dict[str, Any]]:
    """A row inserted as ann, renamed by an update that lacks the photo, moved from key 1 to 7 and back."""
    ann = {"id": 1, "name": "ann", "photo": b"\1"}
    evil = {"id": 1, "name": HOSTILE, "photo": None}
    gap = [("photo", "not_captured")]
    return [
        row(1, "insert", 1, after=ann),
        row(2, "update", 1, before=ann, after=evil, changed=["name"], mask="02", after_unknown_columns=gap),
        row(3, "update", 7, previous_key={"id": 1}, before=evil, after={**evil, "id": 7}),
        row(4, "update", 1, previous_key={"id": 7}, before={**evil, "id": 7}, after=ann),
        row(5, "insert", 2, after={**ann, "id": 2}),
    ]


def publish(
    control: ControlStore,
    feed: str,
    rows: list[dict[str, Any]] | None = None,
    window: Window = DAY,
    contract: Contract = CUSTOMERS,
) -> None:
    """Publishes a ledger and the history of live rows, as a release."""
    catalog = load_catalog("lake", **Settings().catalog, schema_version="v1")
    catalog.create_namespace(feed)
    known = life_of_one() if rows is None else rows
    ledger = ledger_schema(contract.published)
    catalog.create_table(f"{feed}.dbo_customers_changes", ledger).append(pa.Table.from_pylist(known, ledger))
    history = history_schema(contract.published)
    intervals = [
        {**ledger_row["after"], "_valid_from": ledger_row["committed_at"]}
        for ledger_row in known
        if ledger_row.get("after")
    ]
    table = catalog.create_table(f"{feed}.dbo_customers_history", history)
    table.append(pa.Table.from_pylist(intervals, history))
    release(control, feed, [contract], window)
