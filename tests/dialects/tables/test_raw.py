"""Rows of change tables as the raw table stores them, each with its own position."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from changeledger.config.feed import Feed
from changeledger.dialects.qlik_tables.dialect import QLIK_TABLES
from changeledger.dialects.tables.interface import Hidden
from changeledger.dialects.tables.raw import AsRaw, RawTable, all_numbered
from changeledger.kernels.in_memory import InMemory
from changeledger.kernels.rows import together
from changeledger.model.change import RECORD_TYPE

FEED = Feed.model_validate(
    {
        "feed": "qlik", "dialect": "qlik_tables", "database": "shop", "connection": "shop",
        "source": {"header_prefix": "header__"}, "tables": [{"table": "dbo.t"}],
    }
)  # fmt: skip
RAW_COLUMNS = [("window_id", "string"), ("source_position", RECORD_TYPE), ("_instance", "string")]


def read(change_seq: list[str | None], **columns: pa.Array) -> pa.RecordBatch:
    size = len(change_seq)
    header = {
        "header__change_seq": pa.array(change_seq, pa.string()),
        "header__change_oper": pa.array([seq and "I" for seq in change_seq], pa.string()),
    }
    assert {len(values) for values in columns.values()} <= {size}
    return pa.RecordBatch.from_pydict(header | columns)


def raw(tables: dict[str, pa.RecordBatch], stored_types: dict[str, str]) -> list[dict[str, Any]]:
    """Returns the rows as the raw table stores them."""
    table = RawTable.of({name: batch.schema for name, batch in tables.items()}, stored_types)
    rows = [
        InMemory.of(batch).through(
            AsRaw(QLIK_TABLES.kernel, FEED, name, "window", table, Hidden()), table.schema
        )
        for name, batch in tables.items()
    ]
    numbered = all_numbered(together(rows)).collected()
    assert numbered.schema == table.schema
    numbered.validate(full=True)
    stored_rows: list[dict[str, Any]] = numbered.to_pylist()
    return stored_rows


def test_rows_are_stored_as_they_were_read_with_their_place() -> None:
    (row,) = raw({"t__ct": read(["1" * 35], id=pa.array([7], pa.int16()))}, {})
    assert row == {
        "window_id": "window",
        "source_position": {"source": "t__ct", "partition": None, "offset": None, "row": b"1" * 35 + b"I"},
        "_instance": "t__ct",
        "header__change_seq": "1" * 35,
        "header__change_oper": "I",
        "id": 7,
    }


def test_the_columns_of_a_raw_table_have_types_that_iceberg_has() -> None:
    batch = read(
        ["1"],
        small=pa.array([1], pa.int16()),
        tiny=pa.array([1], pa.int8()),
        at=pa.array([1], pa.timestamp("us")),
        moment=pa.array([1], pa.timestamp("us", tz="UTC")),
        price=pa.array([1], pa.decimal128(9, 2)),
    )
    table = RawTable.of({"t__ct": batch.schema}, {})
    assert table.columns == [
        *RAW_COLUMNS,
        ("header__change_seq", "string"), ("header__change_oper", "string"),
        ("small", "int"), ("tiny", "int"),
        ("at", "timestamp_ntz"), ("moment", "timestamp"), ("price", "decimal(9,2)"),
    ]  # fmt: skip


def test_a_column_whose_type_changed_is_stored_beside_itself() -> None:
    """The raw table's existing columns keep their types. Narrow integers become `int` in the lake."""
    batch = read(
        ["1"],
        Qty=pa.array([1], pa.int16()),
        note=pa.array(["x"]),
        same=pa.array([2], pa.int16()),
        source_position=pa.array(["y"]),
    )
    (row,) = raw({"t__ct": batch}, {"qty": "decimal(9,2)", "Note": "int", "same": "int", "gone": "string"})
    stored = {"Qty::int": 1, "note::string": "x", "same": 2, "source_position::string": "y"}
    assert {name: row.get(name) for name in stored} == stored
    assert row["source_position"]["source"] == "t__ct"
    assert "gone" not in row


def test_change_tables_of_one_table_share_the_columns_they_both_have() -> None:
    tables = {
        "old__ct": read(["1"], ID=pa.array([1], pa.int16()), lost=pa.array(["a"]), at=pa.array(["now"])),
        "new__ct": read(["1"], id=pa.array([2], pa.int32()), at=pa.array([5], pa.int64())),
    }
    old, new = raw(tables, {})
    names = ["ID", "lost", "at", "at::bigint"]
    assert [old[name] for name in names] == [1, "a", "now", None]
    assert [new[name] for name in names] == [2, None, None, 5]
    assert [row["_instance"] for row in (old, new)] == ["old__ct", "new__ct"]
    assert [row["source_position"]["offset"] for row in (old, new)] == [None, None], (
        "they stand at two places"
    )


def test_rows_that_stand_twice_are_numbered() -> None:
    rows = raw({"t__ct": read(["1", "2", "1", None, None], id=pa.array([1, 2, 1, 4, 4]))}, {})
    assert [row["source_position"]["offset"] for row in rows] == [None, None, 1, None, 1]
    assert rows[3]["source_position"]["row"] == rows[4]["source_position"]["row"], (
        "the rows of a full load have no position"
    )


def test_a_window_may_have_no_rows() -> None:
    assert raw({"t__ct": read([], id=pa.array([], pa.int16()))}, {}) == []
