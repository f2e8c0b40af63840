"""Decoded rows, beyond what the golden cases show."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from changeledger.config.feed import Feed
from changeledger.dialects.plan import TablePlan
from changeledger.dialects.sqlserver_cdc.decode import decode
from changeledger.dialects.sqlserver_cdc.header import record
from changeledger.dialects.tables.interface import Hidden
from changeledger.dialects.tables.outcomes import decoded_schema, refused
from changeledger.dialects.tables.pairs import joined
from changeledger.kernels.arrow import RECORD
from changeledger.model.contract import Column, Contract

NARROW = Contract(
    table="dbo.t",
    columns=(
        Column(name="ID", type="int", ordinal=1, key_position=1),
        Column(name="qty", type="smallint", ordinal=2),
        Column(name="sum", type="int", ordinal=3),
    ),
)
# The lake's contract: wider types, one more column, other ordinals, and a computed column.
WIDE = Contract(
    table="dbo.t",
    columns=(
        Column(name="id", type="bigint", ordinal=1, key_position=1),
        Column(name="note", type="nvarchar(9)", ordinal=2),
        Column(name="qty", type="int", ordinal=3),
        Column(name="sum", type="int", ordinal=4, computed=True),
    ),
)
FEED = Feed.model_validate(
    {
        "feed": "cdc", "dialect": "sqlserver_cdc", "database": "shop", "connection": "shop", "source": {},
        "tables": [{"table": "dbo.t"}],
    }
)  # fmt: skip


def raw(*rows: tuple[int, str | None, int | None, int]) -> pa.RecordBatch:
    """Rows given as operation, mask, id and qty. Each update has its own position."""
    places = [bytes([(at + 3) // 2]) * 10 for at in range(len(rows))]
    code, mask, key, qty = (list(column) for column in zip(*rows, strict=True))
    columns = {
        "__$start_lsn": pa.array(places),
        "__$seqval": pa.array(places),
        "__$operation": pa.array(code, pa.int32()),
        "__$update_mask": pa.array([digits and bytes.fromhex(digits) for digits in mask], pa.binary()),
        "id": pa.array(key, pa.int32()),
        "Qty": pa.array(qty, pa.int32()),
        "sum": pa.array([1] * len(rows), pa.int32()),
    }
    read = pa.RecordBatch.from_pydict(columns)
    return read.append_column("source_position", record(read, "dbo_t", FEED, Hidden()))


def rows(batch: pa.RecordBatch, plan: TablePlan) -> list[dict[str, Any]]:
    decoded = joined(decode(batch, plan), plan)
    assert decoded.schema == decoded_schema(plan.contract)
    return decoded.to_pylist()


ROWS = raw((2, "07", 1, 5), (3, "02", 1, 5), (4, "02", 1, 6), (2, "07", None, 5))


def test_rows_of_an_older_shape_are_fitted_to_the_contract() -> None:
    insert, before, update, bad = rows(ROWS, TablePlan(FEED, NARROW, WIDE, "window"))
    assert insert["after"] == {"id": 1, "note": None, "qty": 5, "sum": None}
    assert insert["after_unknown_columns"] == [("note", "not_captured"), ("sum", "not_captured")]
    assert (before["disposition"], update["changed"], update["flags"]) == ("paired", ["qty"], None)
    assert (update["key"], update["before"]["qty"], update["previous_key"]) == ({"id": 1}, 5, None)
    assert (bad["disposition"], bad["reason"], bad["change_id"]) == ("quarantined", "null_key", None)
    came = json.loads(bad["raw_value"])
    assert (came["Qty"], came["__$update_mask"], "id" in came) == (5, "Bw==", False)


def test_a_column_that_is_computed_no_more_was_not_captured_before() -> None:
    """The old capture instance has NULL for a computed column. The table's next one captures a value."""
    computed = NARROW.with_computed({"sum"})
    batch = ROWS.set_column(ROWS.schema.get_field_index("sum"), "sum", pa.nulls(ROWS.num_rows, pa.int32()))
    insert, _, update, _ = rows(batch, TablePlan(FEED, computed, NARROW, "window"))
    for row in (insert, update):
        assert (row["after"]["sum"], row["after_unknown_columns"]) == (None, [("sum", "not_captured")])


def test_ids_do_not_depend_on_the_columns_types() -> None:
    """Widening a column or adding one keeps the change ids."""
    without = NARROW.model_copy(
        update={"columns": (NARROW.columns[0].model_copy(update={"name": "id"}), *NARROW.columns[1:2])}
    )
    grown = WIDE.model_copy(update={"columns": (*WIDE.columns[:3],)})
    narrow, wide = (rows(ROWS, TablePlan(FEED, without, contract, "window")) for contract in (without, grown))
    assert [row["change_id"] for row in narrow] == [row["change_id"] for row in wide]
    assert narrow[0]["change_id"] is not None


def test_masks_that_must_not_be_read_quarantine_their_changes() -> None:
    plan = TablePlan(
        FEED, NARROW, WIDE, "window", masks_unreadable="they contradict both orders: " + "x" * 600
    )
    batch = raw((2, "07", 1, 5), (2, None, 1, 5), (9, "07", 1, 5)).drop_columns(["__$seqval"])
    read = rows(batch, plan)
    assert [row["reason"] for row in read] == ["mask_order_contradicted", None, "unknown_operation"]
    assert len(read[0]["detail"]) == 500


def test_rows_of_a_shape_that_the_contract_rules_out_are_kept_as_they_came() -> None:
    place = pa.array([{"source": "t", "row": b"1"}], RECORD)
    batch = pa.RecordBatch.from_arrays(
        [pa.array(["run"]), place, pa.array(["t__ct"]), pa.array([7])],
        ["window_id", "source_position", "_instance", "id"],
    )
    assert refused(batch, "no place; " + "y" * 600).to_pylist() == [
        {
            "source_position": {"source": "t", "partition": None, "offset": None, "row": b"1"},
            "disposition": "quarantined", "reason": "incompatible_shape", "detail": "no place; " + "y" * 490,
            "raw_key": None, "raw_value": b'{"_instance":"t__ct","id":7}', "raw_headers": None,
        }
    ]  # fmt: skip


def test_no_rows_are_no_rows() -> None:
    plan = TablePlan(FEED, NARROW, WIDE, "window")
    assert rows(ROWS.slice(0, 0), plan) == []
    assert rows(ROWS.slice(2, 1), plan)[0]["flags"] == ["before_unknown"]
