"""Which version of its table a message without a schema id has, however late it comes."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from changeledger.cli.decode.reader import feed_of
from changeledger.dialects.qlik_messages import discovery
from changeledger.kernels.arrow import MESSAGE

# Versions of a table, one after the other: a column dropped in the middle, one added, one that comes again.
VERSIONS = (("id", "ext_ref", "qty"), ("id", "qty"), ("id", "qty", "note"), ("id", "ext_ref", "qty", "note"))
TOPIC = "qlik.dbo.orders"
Message = tuple[int, int, int, str, tuple[str, ...] | None]


def metadata(names: tuple[str, ...], at: int) -> str:
    columns = {
        name: {"ordinal": number, "type": "INT4", "primaryKeyPosition": int(number == 1)}
        for number, name in enumerate(names, 1)
    }
    lineage = {"schema": "dbo", "table": "orders", "timestamp": iso(at)}
    return json.dumps({"lineage": lineage, "tableStructure": {"tableColumns": columns}})


def data(names: tuple[str, ...], at: int) -> str:
    headers = {"operation": "INSERT", "timestamp": iso(at), "changeSequence": "1" * 35}
    return json.dumps({"headers": headers, "data": dict.fromkeys(names, 1)})


def iso(at: int) -> str:
    return f"2026-08-07T{at // 60:02}:{at % 60:02}:00.000"


@st.composite
def logs(draw: Any) -> list[Message]:
    """(partition, offset, minute in Kafka, text, columns): data comes up to two versions late, in
    the partition of its metadata or in another one."""
    offsets = {0: 0, 1: 0}
    messages: list[Message] = []
    minute = 10

    def add(partition: int, text: str, names: tuple[str, ...] | None) -> None:
        messages.append((partition, offsets[partition], minute, text, names))
        offsets[partition] += 1

    for number, names in enumerate(VERSIONS):
        minute += 10
        add(0, metadata(names, minute), None)
        for _ in range(draw(st.integers(0, 4))):
            minute += 1
            older = draw(st.integers(max(0, number - 2), number))
            add(
                draw(st.integers(0, 1)),
                data(VERSIONS[older], minute - 10 * (number - older)),
                VERSIONS[older],
            )
    return messages


def batch(messages: list[Message]) -> pa.RecordBatch:
    rows = [
        {"topic": TOPIC, "partition": p, "offset": o, "timestamp": at * 60_000_000, "key": None,
         "value": text.encode(), "headers": []}
        for p, o, at, text, _ in messages
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, MESSAGE)


@given(logs(), st.data())
def test_each_message_is_read_by_the_version_that_has_its_columns(messages: list[Message], cuts: Any) -> None:
    feed = feed_of("qlik_messages", ["dbo.orders"])
    known: dict[str, Any] = {}
    cut = cuts.draw(st.integers(0, len(messages)))
    for window in (messages[:cut], messages[cut:]):
        raw = batch(window)
        plan = discovery.discover(discovery.merged([discovery.facts(raw, {})]), feed, {}, known, {})
        known |= plan.new_writer_schemas
        for number, (_, _, _, _, names) in zip(discovery.routes(raw, plan).to_pylist(), window, strict=True):
            if names is not None:
                assert number is not None
                assert plan.tables[number].writer_schema.names == names
