"""Fits changes from their writer's columns to the table's contract. Change ids stay the same."""

from __future__ import annotations

import pyarrow as pa

from changeledger.dialects.debezium.decode import decode
from changeledger.dialects.debezium.plan import TablePlan
from changeledger.dialects.messages.message_rows import decoded_schema
from changeledger.model.contract import Column, Contract
from tests.dialects.debezium.decoding import batch, feed
from tests.dialects.debezium.test_single import CONTRACT, changed

GROWN = Contract(
    table="dbo.t",
    columns=(
        Column(name="id", type="bigint", ordinal=1, key_position=1, nullable=False),
        Column(name="name", type="nvarchar(50)", ordinal=2),
        Column(name="added", type="datetime2(3)", ordinal=5),
        Column(name="amount", type="decimal(38,10)", ordinal=3),
        Column(name="x", type="float", ordinal=4),
    ),
)


def read(contract: Contract) -> pa.RecordBatch:
    messages = [
        changed(after={"id": 1, "name": "a", "amount": "BGM=", "x": 1.5}),
        changed(op="u", before={"id": 1, "name": "a", "amount": None, "x": None},
                after={"id": 2, "name": "b", "amount": None, "x": None}),
        changed(op="d", before={"id": 2, "name": "__debezium_unavailable_value", "amount": None, "x": None},
                after=None),
        "no change",
    ]  # fmt: skip
    plan = TablePlan(feed(), CONTRACT, contract, "window", database="d")
    return decode(batch(message.encode() for message in messages), plan)


def test_a_column_that_grew_and_one_that_was_added_change_no_id() -> None:
    before, after = read(CONTRACT), read(GROWN)
    assert after.schema.equals(decoded_schema(GROWN))
    assert after.column("change_id").equals(before.column("change_id"))
    same = ["operation", "changed", "sort_key", "flags", "disposition", "committed_at", "transaction_id"]
    assert after.select(same).equals(before.select(same))


def test_a_column_that_the_writer_lacks_was_not_captured() -> None:
    insert, update, delete, _ = read(GROWN).to_pylist()
    assert insert["after"] == {**read(CONTRACT).to_pylist()[0]["after"], "added": None}
    assert insert["after_unknown_columns"] == [("added", "not_captured")]
    assert (update["key"], update["previous_key"], update["changed"]) == (
        {"id": 2},
        {"id": 1},
        ["id", "name"],
    )
    assert update["before_unknown_columns"] == update["after_unknown_columns"] == [("added", "not_captured")]
    assert delete["before_unknown_columns"] == [("name", "unavailable"), ("added", "not_captured")]
    assert delete["flags"] == ["placeholder_misplaced"]


def test_a_computed_column_was_not_captured_whatever_is_written() -> None:
    insert = read(CONTRACT.with_computed({"x"})).to_pylist()[0]
    assert insert["after"]["x"] is None
    assert insert["after_unknown_columns"] == [("x", "not_captured")]
