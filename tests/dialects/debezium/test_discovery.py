"""Discovery finds tables and columns that occur only in messages in the middle of a topic."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from changeledger.dialects.debezium import schema_block
from changeledger.dialects.debezium.dialect import DEBEZIUM
from changeledger.dialects.debezium.discovery import Discovery, discover
from changeledger.dialects.debezium.facts import facts
from changeledger.dialects.debezium.field_types import TypeSaid, column_type
from changeledger.dialects.debezium.other_messages import decode_other
from changeledger.dialects.debezium.plain import json_object
from changeledger.dialects.kernel import EarlierWindows
from changeledger.dialects.messages import samples
from changeledger.kernels.arrow import MESSAGE, with_column
from changeledger.model.contract import Column, Contract
from tests.dialects.debezium import decoding
from tests.dialects.debezium.decoding import batch, feed
from tests.dialects.reading import read, records_of

FEED = feed({"table": "dbo.t"}, {"table": "dbo.u"})
# Enough messages that the samples of the first and last ones do not reach the middle.
AROUND = 25


def event(table: str, after: dict[str, Any]) -> dict[str, Any]:
    return decoding.event("c", None, after, table=table)


def wrapped(table: str, after: dict[str, Any]) -> dict[str, Any]:
    types = {int: "int32", str: "string"}
    fields = [{"type": types[type(value)], "optional": True, "field": name} for name, value in after.items()]
    block = {"type": "struct", "fields": [{"type": "struct", "field": "after", "fields": fields}]}
    return {"schema": block, "payload": event(table, after)}


def topic(middle: list[Any], around: dict[str, Any], space: str = "") -> pa.RecordBatch:
    messages = [around] * AROUND + middle + [around] * AROUND
    texts = (message and json.dumps(message, separators=("," + space, ":" + space)) for message in messages)
    return batch((text and text.encode() for text in texts), "s.dbo.t", b'{"id": 1}')


def discovered(messages: pa.RecordBatch) -> Discovery:
    """Discovers from parts of seven messages each, as Spark's partitions would provide them."""
    parts = [facts(messages.slice(at, 7), {}) for at in range(0, messages.num_rows, 7)]
    return discover(samples.merged(parts), FEED, EarlierWindows({}, {}, {}))


def columns(messages: pa.RecordBatch, table: str = "dbo.t") -> list[tuple[str, str]]:
    schema = next(t.writer_schema for t in discovered(messages).tables if t.table == table)
    assert schema is not None
    return [(c.name, c.type) for c in schema.columns]


def test_a_column_that_is_there_for_a_while() -> None:
    messages = topic([wrapped("t", {"id": 1, "note": "there"})], wrapped("t", {"id": 1}))
    assert columns(messages) == [("id", "int"), ("note", "nvarchar(max)")]
    _, rows = (batch.to_pylist() for batch in read(DEBEZIUM.kernel, messages, FEED, {}))
    assert {row["disposition"] for row in rows} == {"change"}
    assert rows[AROUND]["after"] == {"id": 1, "note": "there"}
    assert rows[0]["after_unknown_columns"] == [("note", "not_captured")]


@pytest.mark.parametrize("form", [event, wrapped])
def test_a_table_that_is_there_for_a_while(form: Any) -> None:
    messages = topic([form("u", {"id": 7}), None], form("t", {"id": 1}))
    discovery = discovered(messages)
    assert {(table.table, table.is_only_table) for table in discovery.tables} == {
        ("dbo.t", False),
        ("dbo.u", False),
    }
    sizes = {
        table.table: records_of(DEBEZIUM.kernel, at, messages, discovery).num_rows
        for at, table in enumerate(discovery.tables)
    }
    assert sizes == {"dbo.t": 2 * AROUND, "dbo.u": 1}


@pytest.mark.parametrize(
    ("called", "said"),
    [
        ("s.all", ("control", "table_not_in_feed")),
        ("s.dbo.t", ("quarantined", "table_mismatch")),
        ("t", ("quarantined", "table_mismatch")),
    ],
)
def test_a_window_with_one_table_of_a_topic(called: str, said: tuple[str, str]) -> None:
    """A topic's name tells whether it may hold other tables: which ones a window has is chance."""
    messages = topic([wrapped("x", {"id": 7})], wrapped("t", {"id": 1}))
    messages = with_column(messages, "topic", pa.array([called] * messages.num_rows))
    others, rows = (batch.to_pylist() for batch in read(DEBEZIUM.kernel, messages, FEED, {}))
    (row,) = [row for row in [*others, *rows] if row["disposition"] != "change"]
    assert (row["disposition"], row["reason"]) == said
    assert row["source_position"]["offset"] == AROUND


def test_chosen_tables_of_a_feed_with_others() -> None:
    """A run of one table knows from the stored contracts that the feed has read other tables."""
    messages = topic([event("u", {"id": 7})], event("t", {"id": 1}))
    messages = with_column(messages, "topic", pa.array(["s.all"] * messages.num_rows))
    contract = Contract(table="dbo.t", columns=(Column(name="id", type="int", ordinal=1, key_position=1),))
    known = {name: contract.model_copy(update={"table": name}) for name in ("dbo.t", "dbo.u")}
    others, rows = read(DEBEZIUM.kernel, messages, FEED.only(["dbo.t"]), known)
    dispositions = [row["disposition"] for batch in (others, rows) for row in batch.to_pylist()]
    assert sorted(dispositions) == ["change"] * 2 * AROUND + ["control"]


@pytest.mark.parametrize("others", [[], [wrapped("u", {"id": 7})] * 60])
def test_a_type_that_is_another_for_a_while_is_not_the_tables(others: list[dict[str, Any]]) -> None:
    """Messages with the other type are quarantined, also in a topic of two tables."""
    messages = topic([wrapped("t", {"id": 1, "n": "many"}), *others], wrapped("t", {"id": 1, "n": 2}))
    assert columns(messages) == [("id", "int"), ("n", "int")]


def test_a_column_that_was_dropped_stays_one_where_another_changed_its_type() -> None:
    """Regression: messages from before the drop were quarantined (`unknown_column`), whatever `n` was."""
    messages = topic([wrapped("t", {"id": 1, "gone": "x", "n": "5"})], wrapped("t", {"id": 1, "n": 2}))
    # The oldest message has the dropped column and the other type.
    first = pa.array([AROUND, *(at for at in range(messages.num_rows) if at != AROUND)])
    messages = with_column(messages, "value", messages.column("value").take(first))
    assert columns(messages) == [("id", "int"), ("n", "int"), ("gone", "nvarchar(max)")]
    _, rows = (batch.to_pylist() for batch in read(DEBEZIUM.kernel, messages, FEED, {}))
    assert {row["disposition"] for row in rows} == {"change"}
    assert rows[0]["after"] == {"id": 1, "n": 5, "gone": "x"}


@pytest.mark.parametrize("space", ["", " "])
@pytest.mark.parametrize("form", [event, wrapped])
def test_what_is_as_the_ends_adds_nothing(form: Any, space: str) -> None:
    like = form("t", {"id": 1})
    messages = topic([None, {"ts_ms": 1}, like], like, space)
    assert [table.table for table in discovered(messages).tables] == ["dbo.t"]
    # 20 at each end of the partition, including the first and last message of the only group.
    assert facts(messages, {}).num_rows == 40


def test_a_topic_of_many_tables_is_not_read_once_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: 200 tables in one topic took more than a minute."""
    names = [f"t{number}" for number in range(40)]
    messages = topic([wrapped(name, {"id": 1}) for name in names], wrapped("t", {"id": 1}))
    tables = [{"table": f"dbo.{name}"} for name in ("t", *names)]
    read_values: list[bytes | None] = []

    def counted(raw: bytes | None) -> Any:
        read_values.append(raw)
        return json_object(raw)

    monkeypatch.setattr(schema_block, "json_object", counted)
    discovery = discover(facts(messages, {}), feed(*tables), EarlierWindows({}, {}, {}))
    assert len(discovery.tables) == 41
    assert len(read_values) < 20 * messages.num_rows


def test_a_block_is_read_once_however_many_messages_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: 4,800 samples' blocks took 20 seconds of each window (twenty tables of six partitions)."""
    fields: list[Any] = []

    def counted(field: Any) -> TypeSaid:
        fields.append(field)
        return column_type(field)

    monkeypatch.setattr(schema_block, "column_type", counted)
    one, other = wrapped("t", {"id": 1}), wrapped("t", {"id": 1, "note": "x"})
    assert columns(topic([other, one] * 30, other)) == [("id", "int"), ("note", "nvarchar(max)")]
    # Two blocks of one and two columns, read at both ends and then with the messages between them.
    assert len(fields) <= 12


def test_a_column_called_payload_is_no_block() -> None:
    """Without a block, all messages of a table form one group.

    Comparing each with all before it took seconds.
    """
    middle = [event("t", {"id": number, "payload": "x"}) for number in range(200)]
    messages = topic(middle, event("t", {"id": 1, "payload": "x"}))
    groups = {row["group"] for row in facts(messages, {}).to_pylist()}
    assert groups == {None, "dbo.t\n"}
    assert facts(messages, {}).num_rows == 40


def test_the_ends_of_what_is_written_alike_are_those_of_its_offsets() -> None:
    """However the batch is cut and reordered, columns are discovered from the same messages."""
    messages = topic([], wrapped("t", {"id": 1}))
    rows = [{**row, "partition": int(row["offset"] < 30)} for row in messages.to_pylist()]
    Random(7).shuffle(rows)
    said = facts(pa.RecordBatch.from_pylist(rows, MESSAGE), {}).to_pylist()
    ends = [(row["partition"], row["offset"]) for row in said if row["group"]]
    assert sorted(ends) == [(0, 49), (1, 0)]


def test_facts_stay_few_whatever_is_written() -> None:
    """If each message has another schema block, discovery uses the first 20 blocks."""
    middle = [wrapped("t", {"id": 1, f"c{number}": "x"}) for number in range(200)]
    messages = topic(middle, wrapped("t", {"id": 1}))
    assert columns(messages) == [("id", "int"), *((f"c{number}", "nvarchar(max)") for number in range(20))]
    assert facts(messages, {}).num_rows < 200


def test_a_message_that_is_broken_is_no_fact_of_its_table() -> None:
    """Only readable messages count as the first and the last message of a group."""
    good = json.dumps(wrapped("u", {"id": 1, "note": "x"}), separators=(",", ":")).encode()
    rows = topic([None] * 3, event("t", {"id": 1})).to_pylist()
    for at, value in enumerate((good[:-1], good, good[:-2])):
        rows[AROUND + at]["value"] = value
    discovery = discovered(pa.RecordBatch.from_pylist(rows, MESSAGE))
    assert {table.table for table in discovery.tables} == {"dbo.t", "dbo.u"}


def test_a_listed_table_that_discovery_has_not_found_is_never_left_out() -> None:
    # Control records are not read again: a change among them would be lost.
    raw = batch(
        (json.dumps(event(table, {"id": 1})).encode() for table in ("t", "U", "other")), "s.all", None
    )
    rows = decode_other(raw, FEED, Discovery([], None)).to_pylist()
    assert [(row["disposition"], row["reason"]) for row in rows] == [
        ("quarantined", "topic_names_no_table"),
        ("quarantined", "topic_names_no_table"),
        ("control", "table_not_in_feed"),
    ]
