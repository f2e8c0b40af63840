"""Randomly corrupted messages have one result each and do not change results of other messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from changeledger.config.feed import Feed
from changeledger.dialects.debezium.dialect import DEBEZIUM
from changeledger.kernels.arrow import MESSAGE
from changeledger.model.contract import Column, Contract
from sourcelab import debezium
from sourcelab.avro_converter import AvroConverter
from sourcelab.log import simulate
from sourcelab.messages import Message
from sourcelab.schema_registry import SchemaRegistry
from sourcelab.tables import ORDERS
from tests.corrupting import corrupted
from tests.dialects.reading import read

CORRUPTED = 250
KEYS = {name: at for at, name in enumerate(ORDERS.key, 1)}
CONTRACT = Contract(
    table=ORDERS.full_name,
    columns=tuple(
        Column(name=c.name, type=c.type, ordinal=c.ordinal, key_position=KEYS.get(c.name, 0))
        for c in ORDERS.columns
    ),
)
FEED = Feed.model_validate(
    {
        "feed": "f", "dialect": "debezium", "database": "shop", "connection": "none",
        "source": {"topics": ["*"]},
        "tables": [{"table": ORDERS.full_name, "key": ORDERS.key, "columns": [
            {"name": c.name, "type": c.type} for c in ORDERS.columns
        ]}],
    }
)  # fmt: skip


def messages(seed: int, schemas: bool = False) -> list[Message]:
    streamed = debezium.messages(simulate(seed, 12), schemas=schemas, snapshot=False, heartbeats=False)
    return [message for message in streamed if message.topic.endswith(ORDERS.full_name)]


def results(values: Sequence[Message], schemas: Mapping[str, str]) -> dict[int, dict[str, Any]]:
    raw = pa.RecordBatch.from_pylist(
        [
            {"topic": m.topic, "partition": 0, "offset": at, "timestamp": None, "headers": []}
            | {"key": m.key, "value": m.value}
            for at, m in enumerate(values)
        ],
        MESSAGE,
    )
    batches = read(DEBEZIUM.kernel, raw, FEED, {CONTRACT.table: CONTRACT}, schemas)
    for batch in batches:
        batch.validate(full=True)
    return {row["source_position"]["offset"]: row for batch in batches for row in batch.to_pylist()}


def reasons_among(good: list[Message], seed: str, schemas: Mapping[str, str]) -> set[str]:
    """Sends corrupted messages after the good ones and returns the reasons of quarantined ones."""
    rng = Random(seed)
    data = [message for message in good if message.value]
    bad = [m._replace(value=corrupted(rng, m.value or b"")) for m in rng.choices(data, k=CORRUPTED)]
    clean, mixed = results(good, schemas), results([*good, *bad], schemas)
    assert sorted(mixed) == list(range(len(good) + CORRUPTED)), "each record has exactly one result"
    assert {at: mixed[at] for at in clean} == clean
    quarantined = [row for row in mixed.values() if row["disposition"] == "quarantined"]
    assert all(row["reason"] and row["detail"] is not None for row in quarantined)
    return {row["reason"] for row in quarantined}


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("schemas", [False, True])
def test_corrupted_messages_are_accounted_for_and_hurt_nobody(seed: int, schemas: bool) -> None:
    assert len(reasons_among(messages(seed, schemas), f"json {seed}", {})) >= 4


@pytest.mark.parametrize("seed", range(5))
def test_corrupted_avro_is_accounted_for_and_hurts_nobody(seed: int) -> None:
    registry = SchemaRegistry()
    good = list(AvroConverter(registry.register).encoded(messages(seed, schemas=True)))
    assert len(reasons_among(good, f"avro {seed}", registry.schemas)) >= 2
