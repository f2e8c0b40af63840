"""Randomly corrupted messages have one result each and do not change results of other messages."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from changeledger.config.feed import Feed
from changeledger.kernels.arrow import MESSAGE
from sourcelab import ces, ces_avro, qlik_messages, qlik_messages_avro
from sourcelab.log import Log, simulate
from sourcelab.messages import Message
from tests.corrupting import corrupted
from tests.dialects.reading import decoded
from tests.dialects.test_message_cases import KERNELS

CORRUPTED = 150


def sent(dialect: str, log: Log, in_avro: bool = False) -> list[Message]:
    if dialect == "ces":
        streamed = ces.messages(log, from_tx=1)
        return list(ces_avro.messages(streamed) if in_avro else streamed)
    written = qlik_messages.messages(log, envelope=True, snapshot=True)
    return list(qlik_messages_avro.messages(written) if in_avro else written)


def results(dialect: str, values: Sequence[Message], log: Log) -> dict[int, dict[str, Any]]:
    """Results by offset. A message's offset is its index in `values`."""
    feed = Feed.model_validate(
        {
            "feed": "f", "dialect": dialect, "database": "shop", "connection": "none",
            "source": {"topics": ["*"]}, "tables": [{"table": table.full_name} for table in log.tables],
        }
    )  # fmt: skip
    rows = [
        {"topic": m.topic, "partition": 0, "offset": at, "timestamp": None, "headers": []}
        | {"key": m.key, "value": m.value}
        for at, m in enumerate(values)
    ]
    by_offset = {}
    for batch in decoded(KERNELS[dialect], pa.RecordBatch.from_pylist(rows, MESSAGE), feed):
        batch.validate(full=True)
        for row in batch.to_pylist():
            assert row["source_position"]["offset"] not in by_offset, "a record has one outcome"
            by_offset[row["source_position"]["offset"]] = row
    return by_offset


def changes(values: Sequence[Message], log: Log) -> dict[int, dict[str, Any]]:
    rows = results("qlik_messages", values, log)
    return {at: row for at, row in rows.items() if row["disposition"] == "change"}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("in_avro", [False, True])
@pytest.mark.parametrize("dialect", KERNELS)
def test_corrupted_messages_are_accounted_for(dialect: str, seed: int, in_avro: bool) -> None:
    log, rng = simulate(seed, 6), Random(f"{dialect} {seed} {in_avro}")
    good = sent(dialect, log, in_avro)
    metadata = len(log.tables) if dialect == "qlik_messages" else 0
    bad = [
        m._replace(value=corrupted(rng, m.value or b"")) for m in rng.choices(good[metadata:], k=CORRUPTED)
    ]
    clean, mixed = results(dialect, good, log), results(dialect, [*good, *bad], log)
    assert {row["disposition"] for row in clean.values()} == {"change", *["control"] * (metadata > 0)}
    assert sorted(mixed) == list(range(len(good) + CORRUPTED)), "each record has exactly one result"
    if dialect == "qlik_messages":
        assert {at: mixed[at] for at in clean} == clean
    quarantined = [row for row in mixed.values() if row["disposition"] == "quarantined"]
    assert all(row["reason"] and row["detail"] is not None for row in quarantined)
    assert len({row["reason"] for row in quarantined}) >= 2


@pytest.mark.parametrize("seed", range(3))
def test_avro_and_bare_messages_say_what_json_in_an_envelope_says(seed: int) -> None:
    log = simulate(seed, 6)
    in_json = sent("ces", log)
    assert results("ces", sent("ces", log, in_avro=True), log) == results("ces", in_json, log)
    expected = changes(sent("qlik_messages", log), log)
    assert expected
    bare = list(qlik_messages.messages(log, envelope=False, snapshot=True))
    assert changes(bare, log) == expected
    assert changes(sent("qlik_messages", log, in_avro=True), log) == expected
