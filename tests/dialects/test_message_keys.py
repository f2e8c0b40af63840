"""Finds messages by the JSON key of one row, in the forms in which the tools write key columns."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from changeledger.config.feed import Feed
from changeledger.dialects.interface import MessageDialect
from changeledger.dialects.messages.message_keys import WithKey
from changeledger.dialects.registry import DIALECTS
from changeledger.dialects.tables import keys
from changeledger.kernels.arrow import POSITIONS, RECORD
from changeledger.model.contract import Column, Contract
from tests.dialects.windows import feed

# The midnight that begins 29 February 2024 is 19,782 days, or 1,709,164,800 seconds, after 1970.
DAYS, SECONDS = 19_782, 1_709_164_800
LEAP_DAY = "2024-02-29 00:00:00"
GUID = "260384EC-374E-B282-D611-43E6884A462A"


TABLE = {"table": "dbo.t"}


def with_key(of: Feed, kinds: dict[str, str], texts: dict[str, str], *message_keys: object) -> list[int]:
    """Returns the offsets of the keys that are the row's. Keys are written as JSON unless they are bytes."""
    columns = [
        Column(name=name, type=kind, ordinal=at, key_position=at)
        for at, (name, kind) in enumerate(kinds.items(), 1)
    ]
    contract, dialect = Contract(table="dbo.t", columns=tuple(columns)), DIALECTS[of.dialect]
    assert isinstance(dialect, MessageDialect)
    places = [{"source": "t", "partition": 0, "offset": at, "row": None} for at in range(len(message_keys))]
    raw = [key if isinstance(key, bytes) or key is None else json.dumps(key).encode() for key in message_keys]
    messages = pa.record_batch(
        {"source_position": pa.array(places, RECORD), "message_key": pa.array(raw, pa.binary())}
    )
    rows = WithKey(keys.typed(texts, contract), contract, of, dialect.read_key_cell)(messages)
    assert rows.schema == POSITIONS
    return [place["offset"] for place in rows.column(0).to_pylist()]


@pytest.mark.parametrize(
    ("kind", "text", "cell", "other"),
    [
        # WIRE.md: bytes of the unscaled number. The connector's chapter has `BGM=` for 1.123.
        ("decimal(10,3)", "1.123", "BGM=", "BGQ="),
        ("decimal(18,0)", "-77", "sw==", "TQ=="),
        ("date", "2024-02-29", DAYS, DAYS + 1),
        ("datetime", LEAP_DAY, SECONDS * 1000, SECONDS),
        ("datetime2(6)", LEAP_DAY, SECONDS * 10**6, SECONDS * 1000),
        ("datetimeoffset(7)", "2018-07-13T12:23:45.4560000+11:00", "2018-07-13T12:23:45.456+11:00", "x"),
        ("varbinary(8)", "0x0A0B", "Cgs=", "Cgw="),
        ("uniqueidentifier", GUID, GUID.lower(), GUID[:-1]),
        ("bigint", str(2**53 + 1), 2**53 + 1, 2**53),
        ("nvarchar(9)", 'a"\u00e9', 'a"\u00e9', 'A"\u00e9'),
    ],
)
def test_as_debezium_writes_a_type(kind: str, text: str, cell: Any, other: Any) -> None:
    keys_of_messages = [{"id": cell}, {"id": other}, {"id": None}, {"ID": cell}, {"id": cell, "b": 1}]
    assert with_key(feed("debezium", TABLE), {"id": kind}, {"id": text}, *keys_of_messages) == [0, 3]


def test_as_the_block_or_the_mode_of_the_connector_says() -> None:
    block = {"type": "struct", "fields": [{"type": "int64", "field": "id"}]}
    block["fields"][0]["name"] = "io.debezium.time.NanoTimestamp"  # type: ignore[index]
    in_nanos = {"schema": block, "payload": {"id": SECONDS * 10**9}}
    texts, of_block = {"id": LEAP_DAY}, {"id": "datetime2(6)"}
    assert with_key(feed("debezium", TABLE), of_block, texts, in_nanos, in_nanos["payload"]) == [0]
    in_millis = feed(
        "debezium", TABLE, **{"time.precision.mode": "connect", "decimal.handling.mode": "string"}
    )
    assert with_key(in_millis, of_block, texts, {"id": SECONDS * 1000}) == [0]
    assert with_key(in_millis, {"id": "decimal(10,3)"}, {"id": "1.123"}, {"id": "1.123"}) == [0]


@pytest.mark.parametrize("dialect", ["qlik_messages", "ces"])
def test_texts_and_numbers_of_other_tools_in_a_key_of_two(dialect: str) -> None:
    kinds, texts = {"day": "date", "price": "decimal(10,2)"}, {"day": "2024-02-29", "price": "77.00"}
    written = [
        {"day": "2024-02-29", "price": "77"},
        {"price": 77.0, "day": "2024-02-29"},
        {"day": "2024-02-29", "price": 77.5},
        {"day": "2024-02-29"},
        b"\x00\x00\x00\x00\x07",
        b"[1]",
        None,
    ]
    assert with_key(feed(dialect, TABLE), kinds, texts, *written) == [0, 1]
