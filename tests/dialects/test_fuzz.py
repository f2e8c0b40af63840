"""Randomly corrupted messages do not stop the job, are not lost, and do not change other messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from types import MappingProxyType
from typing import Any

import pytest

from changeledger.cli.decode import reader
from changeledger.cli.decode.records import Message
from changeledger.model.contract import Column, Contract
from sourcelab import ces, ces_avro, debezium, qlik_messages, qlik_messages_avro
from sourcelab.avro_converter import AvroConverter
from sourcelab.faults import lose_segments
from sourcelab.log import Log, simulate
from sourcelab.messages import Message as Sent
from sourcelab.schema_registry import SchemaRegistry
from sourcelab.tables import ORDERS
from tests.corrupting import corrupted

CORRUPTED = 250


def reported(dialect: str, log: Log, split_at: int | None = None, schemas: bool = False) -> list[Sent]:
    if dialect == "debezium":
        messages = debezium.messages(log, schemas=schemas, snapshot=False, heartbeats=False)
        return [m for m in messages if m.topic.endswith(ORDERS.full_name)]
    if dialect == "ces":
        streamed = ces.messages(log, split_at=split_at)
        return [m for m in streamed if m.key == ORDERS.full_name.encode()]
    messages = qlik_messages.messages(log, envelope=True, snapshot=False)
    return [m for m in messages if m.topic.endswith(ORDERS.full_name)]


def in_avro(dialect: str, messages: list[Sent], registry: SchemaRegistry) -> list[Sent]:
    """Each message, as the tool's Avro setting would write it."""
    if dialect == "debezium":
        return list(AvroConverter(registry.register).encoded(messages))
    return list((ces_avro if dialect == "ces" else qlik_messages_avro).messages(messages))


def contract() -> Contract:
    place = {name: at for at, name in enumerate(ORDERS.key, 1)}
    return Contract(
        table=ORDERS.full_name,
        columns=tuple(
            Column(name=c.name, type=c.type, ordinal=c.ordinal, key_position=place.get(c.name, 0))
            for c in ORDERS.columns
        ),
    )


def results(
    dialect: str, values: list[Sent], schemas: Mapping[str, str] = MappingProxyType({})
) -> list[dict[str, Any]]:
    messages = [Message(m.topic, 0, at, None, m.key, m.value, []) for at, m in enumerate(values)]
    stated = {} if dialect == "qlik_messages" else {ORDERS.full_name: contract()}
    return list(reader.results(reader.feed_of(dialect, messages), messages, stated, lambda _: schemas))


def of_the_table(result: dict[str, Any]) -> dict[str, Any]:
    """A result restricted to the table's own columns: a corrupted message may add a column."""
    names = set(ORDERS.names)
    kept = dict(result)
    for side in ("before", "after", "before_unknown_columns", "after_unknown_columns"):
        if side in kept:
            kept[side] = {n: v for n, v in kept[side].items() if n in names}
    return {name: value for name, value in kept.items() if value}


DIALECTS = pytest.mark.parametrize("dialect", ["debezium", "ces", "qlik_messages"])


@DIALECTS
@pytest.mark.parametrize("seed", [1, 2])
def test_corrupt_messages_are_accounted_for_and_hurt_nobody(dialect: str, seed: int) -> None:
    # Debezium's messages have a schema block with one seed, and none with the other.
    good = reported(dialect, simulate(seed, 12), schemas=seed == 2)
    # A repeated segment with other content corrupts its event, so good events are not split.
    split = reported(dialect, simulate(seed, 12), split_at=700, schemas=seed == 2)
    data = [m for m in split if is_data(m)]
    assert len(reasons_among(dialect, f"{dialect} {seed}", good, data)) >= 5


@DIALECTS
def test_corrupt_avro_is_accounted_for_and_hurts_nobody(dialect: str) -> None:
    registry = SchemaRegistry()
    in_json = reported(dialect, simulate(3, 12), schemas=True)
    good = in_avro(dialect, in_json, registry)
    data = [binary for text, binary in zip(in_json, good, strict=True) if is_data(text)]
    assert len(reasons_among(dialect, f"{dialect} in Avro", good, data, registry.schemas)) >= 3


def test_lost_segments_keep_only_their_own_event_pending() -> None:
    whole = reported("ces", simulate(4, 12), split_at=700)
    remaining, torn = lose_segments(whole, 5, Random(4))
    assert len(whole) == len(remaining) + 5

    def changes(results: list[dict[str, Any]], values: list[Sent]) -> dict[Sent, Any]:
        kept = [r for r in results if r["disposition"] == "change"]
        return {values[r["record"] - 1]: {n: r[n] for n in r if n not in {"record", "records"}} for r in kept}

    decoded = results("ces", remaining)
    waits = {remaining[r["record"] - 1] for r in decoded if r.get("reason") == "split_incomplete"}
    assert waits == set(torn)
    assert {r["disposition"] for r in decoded} == {"change", "pending"}
    of_whole = changes(results("ces", whole), whole)
    assert len(of_whole) > 20
    gone = of_whole.keys() - changes(decoded, remaining).keys()
    assert len(gone) == 5
    assert changes(decoded, remaining) == {m: change for m, change in of_whole.items() if m not in gone}


def is_data(message: Sent) -> bool:
    """Whether the message is neither a tombstone nor Qlik's metadata."""
    return bool(message.value) and b'"schemaId"' not in (message.value or b"")[:200]


def reasons_among(
    dialect: str,
    seed: str,
    good: list[Sent],
    data: list[Sent],
    schemas: Mapping[str, str] = MappingProxyType({}),
) -> set[str]:
    """Sends corrupted messages of `data` after `good`; returns the reasons of quarantined ones."""
    rng = Random(seed)
    bad = [m._replace(value=corrupted(rng, m.value or b"")) for m in rng.choices(data, k=CORRUPTED)]
    clean = [of_the_table(r) for r in results(dialect, good, schemas)]
    mixed = results(dialect, [*good, *bad], schemas)
    numbers = sorted(n for r in mixed for n in r.get("records", [r["record"]]))
    assert numbers == list(range(1, len(good) + CORRUPTED + 1)), "each record has exactly one result"
    beside = [of_the_table(r) for r in mixed if r["record"] <= len(good)]
    assert beside == clean
    quarantined = [r for r in mixed if r["disposition"] == "quarantined"]
    assert all(r.get("reason") and r.get("detail") is not None for r in quarantined), quarantined
    assert json.dumps(mixed), "written as JSON"
    return {r["reason"] for r in quarantined}
