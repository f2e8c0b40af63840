"""The simulated tools write what the formats' pages show, or what was worked out by hand."""

from __future__ import annotations

import base64
import json
from collections import Counter
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from sourcelab import debezium, sqlserver_cdc
from sourcelab.debezium_schema import wire_value
from sourcelab.log import Change, Log, Transaction, simulate
from sourcelab.tables import CUSTOMERS, ORDERS, PARTS, WIDE, Column, Table
from tests.sourcelab.customer import NOON, ROW


def _change(
    operation: Any, after: dict | None, changed: tuple[str, ...] = (), table: Table = CUSTOMERS
) -> Change:
    before = None if operation == "insert" else ROW
    return Change(table, operation, before, after, bytes.fromhex("00000027000007580003"), 4, changed, 1)


def _log(*changes: Change) -> Log:
    lsn = bytes.fromhex("00000027000007580005")
    return Log((CUSTOMERS, ORDERS, PARTS, WIDE), (Transaction(NOON, NOON, lsn, lsn, changes),))


def _payloads(log: Log, **settings: Any) -> list[dict | None]:
    reported = debezium.messages(log, schemas=False, **{"snapshot": False, "heartbeats": False} | settings)
    return [None if m.value is None else json.loads(m.value) for m in reported]


@pytest.mark.parametrize(
    ("table", "changed", "mask"),
    [
        # The bit of an ordinal is ordinal - 1, counted from the last byte.
        (CUSTOMERS, ("name",), "0002"),
        (CUSTOMERS, ("name", "seen_at"), "0042"),
        (CUSTOMERS, ("notes",), "0100"),
        (CUSTOMERS, ("born", "notes"), "0180"),
        (PARTS, ("digest", "document"), "42"),
        (WIDE, ("c01",), "00000000000000000000000002"),
        (WIDE, ("c64",), "00000000010000000000000000"),
        (WIDE, ("c99",), "08000000000000000000000000"),
    ],
)
def test_the_mask_of_an_update(table: Table, changed: tuple[str, ...], mask: str) -> None:
    assert sqlserver_cdc.mask(_change("update", ROW, changed, table)).hex() == mask


@pytest.mark.parametrize(
    ("table", "mask"), [(CUSTOMERS, "01ff"), (PARTS, "7f"), (WIDE, "0fffffffffffffffffffffffff")]
)
@pytest.mark.parametrize("operation", ["insert", "delete", "key_update"])
def test_inserts_and_deletes_set_every_bit(table: Table, mask: str, operation: str) -> None:
    assert sqlserver_cdc.mask(_change(operation, ROW, (), table)).hex() == mask


@pytest.mark.parametrize(("serial", "notes"), [(1, None), (2, "long")])
def test_an_update_is_two_rows_and_its_unchanged_large_value_is_in_the_second_by_turns(
    serial: int, notes: str | None
) -> None:
    change = _change("update", ROW | {"name": "Bo"}, ("name",))
    log = _log(replace(change, serial=serial))
    (_, before), (_, after) = sqlserver_cdc.change_rows(log.transactions[0])
    assert (before[3], before[4].hex(), before[6], before[13], before[14]) == (3, "0002", "Ann", None, 4)
    assert (after[3], after[4].hex(), after[6], after[13], after[14]) == (4, "0002", "Bo", notes, 4)
    assert before[:3] == after[:3]


def test_a_changed_large_value_is_in_both_rows() -> None:
    log = _log(_change("update", ROW | {"notes": None}, ("notes",)))
    assert [row[13] for _, row in sqlserver_cdc.change_rows(log.transactions[0])] == ["long", None]
    (payload,) = _payloads(log)
    assert (payload["before"]["notes"], payload["after"]["notes"]) == ("long", None)


def test_a_key_update_is_delete_and_insert_of_one_position() -> None:
    log = _log(_change("key_update", ROW | {"id": 8}, ("id",)))
    (_, gone), (_, come) = sqlserver_cdc.change_rows(log.transactions[0])
    assert (gone[3], gone[5], come[3], come[5]) == (1, 7, 2, 8)
    assert gone[:3] == come[:3]
    deleted, tombstone, created = _payloads(log)
    assert tombstone is None
    assert (deleted["op"], deleted["before"]["id"], deleted["after"]) == ("d", 7, None)
    assert (created["op"], created["before"], created["after"]["id"]) == ("c", None, 8)
    positions = [[p["source"][n] for n in ("commit_lsn", "change_lsn")] for p in (deleted, created)]
    assert positions == [["00000027:00000758:0005", "00000027:00000758:0003"]] * 2
    assert [p["source"]["event_serial_no"] for p in (deleted, created)] == [1, 2]


def test_a_debezium_update() -> None:
    (payload,) = _payloads(_log(_change("update", ROW | {"name": "Bo"}, ("name",))))
    assert payload["before"] == {
        "id": 7,
        "name": "Ann",
        "email": None,
        "active": True,
        "credit": "Opg=",  # 15000 is 0x3A98
        "created_at": 1000,
        "seen_at": -1,
        "born": 1,
        "notes": "__debezium_unavailable_value",
    }
    assert payload["after"] == payload["before"] | {"name": "Bo"}
    assert payload["op"] == "u"
    source = payload["source"]
    assert (source["ts_ms"], source["event_serial_no"], source["snapshot"]) == (1_709_294_400_125, 2, "false")
    assert (source["db"], source["schema"], source["table"]) == ("shop", "dbo", "customers")


@pytest.mark.parametrize(
    ("kind", "value", "written"),
    [
        ("decimal(4,3)", Decimal("1.123"), "BGM="),
        ("decimal(4,3)", Decimal("-0.001"), "/w=="),
        ("decimal(5,3)", Decimal("0.128"), "AIA="),
        ("decimal(5,3)", Decimal("-0.128"), "gA=="),
        ("money", Decimal("0.0000"), "AA=="),
        ("date", date(2017, 9, 15), 17424),
        ("time(3)", "04:05:11.789", 14_711_789),
        ("datetime", datetime(2018, 6, 20, 15, 13, 16, 945_000), 1_529_507_596_945),
        ("datetime2(6)", datetime(2018, 6, 20, 15, 13, 16, 945_104), 1_529_507_596_945_104),
        ("datetimeoffset(7)", "2018-07-13T12:23:45.4560000+11:00", "2018-07-13T12:23:45.456+11:00"),
        ("datetimeoffset(7)", "2018-07-13T12:23:00.0000000+00:00", "2018-07-13T12:23:00Z"),
        ("varbinary(50)", b"\x00\xff", "AP8="),
        ("real", 0.10000000149011612, 0.1),
        ("bigint", 2**53 + 1, 9007199254740993),
        ("xml", None, None),
    ],
)
def test_a_value_in_debezium(kind: str, value: object, written: object) -> None:
    assert wire_value(Column("c", kind, 1), value) == written


def test_the_schema_block_describes_every_member() -> None:
    log = simulate(4, 30)
    for message in debezium.messages(log, schemas=True, snapshot=True):
        for text in filter(None, (message.key, message.value)):
            reported = json.loads(text)
            _describes(reported["schema"], reported["payload"])


def _describes(schema: dict, payload: Any) -> None:
    if payload is None:
        assert schema["optional"]
    elif schema["type"] == "struct":
        assert [f["field"] for f in schema["fields"]] == list(payload)
        for field in schema["fields"]:
            _describes(field, payload[field["field"]])
    else:
        kinds: dict[str, Any] = {
            "string": str,
            "bytes": str,
            "boolean": bool,
            "float": float,
            "double": float,
        }
        assert isinstance(payload, kinds.get(schema["type"], int))
        if schema["type"] == "bytes" and payload != debezium.PLACEHOLDER:
            base64.b64decode(payload, validate=True)


def test_a_snapshot_marks_its_first_and_last_rows() -> None:
    log = simulate(4, 3)
    snapshot = [p for p in _payloads(log, snapshot=True) if p is not None and p["op"] == "r"]
    markers = [p["source"]["snapshot"] for p in snapshot]
    middle = ["first_in_data_collection", *["true"] * 10, "last_in_data_collection"]
    assert markers == ["first", *middle[1:], *middle, *middle, *middle[:-1], "last"]
    assert {(p["source"]["change_lsn"], p["source"]["event_serial_no"]) for p in snapshot} == {(None, None)}
    assert len({p["source"]["commit_lsn"] for p in snapshot}) == 1


def test_both_dialects_have_every_change() -> None:
    log = simulate(9, 200)
    changes = Counter(c.operation for t in log.transactions for c in t.changes)
    reported = Counter(row[3] for t in log.transactions for _, row in sqlserver_cdc.change_rows(t))
    updates, keys = changes["update"], changes["key_update"]
    inserts, deletes = changes["insert"] + keys, changes["delete"] + keys
    assert reported == {1: deletes, 2: inserts, 3: updates, 4: updates}
    payloads = _payloads(log)
    on_kafka = Counter(p["op"] if p else "tombstone" for p in payloads)
    assert on_kafka == {"c": inserts, "u": updates, "d": deletes, "tombstone": deletes}
    assert None not in _payloads(log, tombstones=False)


def test_steps_add_up_to_the_whole() -> None:
    log = simulate(9, 40)
    settings: dict[str, Any] = {"schemas": False, "snapshot": True}
    whole = list(debezium.messages(log, **settings))
    first = debezium.messages(log, **settings, to_tx=13)
    assert [*first, *debezium.messages(log, **settings, from_tx=13)] == whole
    times = list(sqlserver_cdc.time_rows(log, 0, 41))
    assert [*sqlserver_cdc.time_rows(log, 0, 13), *sqlserver_cdc.time_rows(log, 13, 41)] == times


def test_heartbeats_have_a_topic_of_their_own() -> None:
    reported = list(debezium.messages(simulate(9, 20), schemas=False, snapshot=False))
    beats = [m for m in reported if m.topic == "__debezium-heartbeat.shop"]
    assert [json.loads(m.key) for m in beats] == [{"serverName": "shop"}] * 3
    assert {m.topic for m in reported} - {beats[0].topic} <= {
        "shop.shop.dbo.customers",
        "shop.shop.sales.orders",
        "shop.shop.dbo.parts",
        "shop.shop.dbo.wide",
    }


def test_commit_times_are_in_the_servers_zone() -> None:
    (row,) = sqlserver_cdc.time_rows(_log(_change("insert", ROW)), 0, 1, "Europe/Istanbul")
    assert row[2] == datetime(2024, 3, 1, 15, 0, 0, 125_000)


def test_a_dummy_stands_between_two_transactions() -> None:
    log = simulate(9, 6)
    rows = list(sqlserver_cdc.time_rows(log, 0, 7))
    dummies = [row for row in rows if row[3] == b"\x00"]
    assert len(dummies) == 2
    assert [row[0] for row in rows] == sorted({row[0] for row in rows})
    assert len(rows) == len(log.transactions) + 2
