"""Simulated Qlik messages agree with the page's examples, or with values worked out by hand."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from sourcelab import qlik_messages
from sourcelab.log import Change, Log, Transaction, simulate
from sourcelab.messages import Message
from sourcelab.qlik_messages_values import wire_value
from sourcelab.tables import CUSTOMERS, PARTS, WIDE, Column, Table
from tests.sourcelab.customer import NOON, ROW

TEN = Table("dbo", "ten", tuple(Column(f"c{n}", "int", n) for n in range(1, 11)), ("c1",))


def _change(
    operation: Any,
    after: dict | None,
    changed: tuple[str, ...] = (),
    table: Table = CUSTOMERS,
    serial: int = 1,
) -> Change:
    before = None if operation == "insert" else ROW
    return Change(table, operation, before, after, bytes.fromhex("00000027000007580003"), 4, changed, serial)


def _reported(*changes: Change, snapshot: bool = False) -> list[dict[str, Any]]:
    """Returns the data messages of one transaction."""
    begun, committed = bytes.fromhex("00000027000007580001"), bytes.fromhex("00000027000007580005")
    log = Log((CUSTOMERS,), (Transaction(NOON, NOON, begun, committed, changes),))
    reported = qlik_messages.messages(log, envelope=False, snapshot=snapshot)
    payloads = [json.loads(m.value or b"") for m in reported]
    return [p for p in payloads if "headers" in p]


@pytest.mark.parametrize(
    ("table", "changed", "mask"),
    [
        # The page: 0B is 1011 binary, so the columns at ordinals 1, 2 and 4 were changed.
        (TEN, ("c1", "c2", "c4"), "0B"),
        (TEN, ("c10",), "0200"),
        (CUSTOMERS, ("name",), "02"),
        (CUSTOMERS, ("email", "seen_at"), "44"),
        # Large objects have no bit: notes is nvarchar(max), document is xml.
        (CUSTOMERS, ("notes",), "00"),
        (CUSTOMERS, ("born", "notes"), "80"),
        (PARTS, ("digest", "document"), "02"),
        (WIDE, ("c64",), "010000000000000000"),
        (WIDE, ("c99",), "08000000000000000000000000"),
    ],
)
def test_the_mask_of_an_update(table: Table, changed: tuple[str, ...], mask: str) -> None:
    assert qlik_messages.change_mask(_change("update", ROW, changed, table)) == mask


@pytest.mark.parametrize(
    ("operation", "table", "mask"),
    [
        ("insert", CUSTOMERS, "FF"),
        ("insert", TEN, "03FF"),
        ("insert", PARTS, "3F"),
        ("insert", WIDE, "0FFFFFFFFFFFFFFFFFFFFFFFFF"),
        ("delete", CUSTOMERS, "01"),
        ("delete", WIDE, "01"),
    ],
)
def test_an_insert_sets_all_and_a_delete_the_key(operation: str, table: Table, mask: str) -> None:
    assert qlik_messages.change_mask(_change(operation, ROW, (), table)) == mask


def test_an_insert() -> None:
    (reported,) = _reported(_change("insert", ROW))
    assert (reported["schema"], reported["table"], reported["beforeData"]) == ("dbo", "customers", None)
    assert reported["data"] == {
        "id": 7,
        "name": "Ann",
        "email": None,
        "active": True,
        "credit": "1.5000",
        "created_at": "1970-01-01T00:00:01.000",
        "seen_at": "1969-12-31T23:59:59.999999",
        "born": "1970-01-02",
        "notes": "long",
    }
    schema_id = reported["headers"].pop("externalSchemaId")
    assert schema_id == qlik_messages.schema_id(CUSTOMERS)
    assert reported["headers"] == {
        "operation": "INSERT",
        "changeSequence": "2024030112000012" + "0000000000000000001",
        "timestamp": "2024-03-01T12:00:00.125",
        "streamPosition": "00000027:00000758:0005",
        "transactionId": "000000000000" + "00000027000007580001",
        "changeMask": "FF",
        "columnMask": "01FF",
        "transactionEventCounter": 1,
        "transactionLastEvent": True,
    }


def test_an_update_has_both_rows_but_no_old_large_object() -> None:
    (reported,) = _reported(_change("update", ROW | {"name": "Bo"}, ("name",)))
    assert (reported["headers"]["operation"], reported["headers"]["changeMask"]) == ("UPDATE", "02")
    assert (reported["data"]["name"], reported["beforeData"]["name"]) == ("Bo", "Ann")
    assert (reported["data"]["notes"], reported["beforeData"]["notes"]) == ("long", None)


def test_a_key_update_is_one_update_with_the_old_key() -> None:
    (reported,) = _reported(_change("key_update", ROW | {"id": 8}, ("id",)))
    assert (reported["headers"]["operation"], reported["headers"]["changeMask"]) == ("UPDATE", "01")
    assert (reported["data"]["id"], reported["beforeData"]["id"]) == (8, 7)


def test_a_delete_has_the_key_and_filler() -> None:
    (reported,) = _reported(_change("delete", None))
    assert reported["data"] == {n: 7 if n == "id" else None for n in CUSTOMERS.names}
    assert (reported["headers"]["operation"], reported["beforeData"]) == ("DELETE", None)


def test_the_counter_orders_a_transaction_and_its_last_event_closes_it() -> None:
    steps = [_change("insert", ROW, serial=41), _change("update", ROW, ("name",), serial=42)]
    headers = [reported["headers"] for reported in _reported(*steps, _change("delete", None, serial=43))]
    assert [h["transactionEventCounter"] for h in headers] == [1, 2, 3]
    assert [h["transactionLastEvent"] for h in headers] == [False, False, True]
    assert [h["changeSequence"][16:].lstrip("0") for h in headers] == ["41", "42", "43"]


def test_the_full_load_has_neither_order_nor_time_nor_masks() -> None:
    (reported,) = _reported(_change("insert", ROW), snapshot=True)
    assert {n: v for n, v in reported["headers"].items() if v is not None} == {
        "operation": "REFRESH",
        "externalSchemaId": qlik_messages.schema_id(CUSTOMERS),
    }
    assert (reported["data"]["id"], reported["beforeData"]) == (7, None)


@pytest.mark.parametrize(
    ("kind", "value", "written"),
    [
        ("decimal(38,10)", Decimal("-0.0000000001"), "-0.0000000001"),
        ("money", Decimal("0.0000"), "0.0000"),
        ("bigint", 2**53 + 1, 9007199254740993),
        ("datetime", datetime(2018, 6, 20, 15, 13, 16, 945_000), "2018-06-20T15:13:16.945"),
        ("datetime2(6)", datetime(2018, 6, 20, 15, 13, 16), "2018-06-20T15:13:16.000000"),
        ("varbinary(50)", b"\x00\xff", "00FF"),
        ("bit", False, False),
        ("xml", None, None),
    ],
)
def test_a_value(kind: str, value: object, written: object) -> None:
    assert wire_value(Column("c", kind, 1), value) == written


def test_the_metadata_of_a_table() -> None:
    reported = qlik_messages.messages(simulate(4, 0), envelope=True, metadata_topic="meta", snapshot=True)
    metadata = [json.loads(m.value or b"") for m in reported if m.topic == "meta"]
    assert [(m["magic"], m["type"], m["message"]["lineage"]["table"]) for m in metadata] == [
        ("atMSG", "MD", name) for name in ("customers", "orders", "parts", "wide")
    ]
    columns = metadata[1]["message"]["tableStructure"]["tableColumns"]
    assert [(n, c["ordinal"], c["type"], c["primaryKeyPosition"]) for n, c in columns.items()] == [
        ("region", 1, "STRING", 1),
        ("order_no", 2, "INT8", 2),
        ("total", 3, "NUMERIC", 0),
        ("ordered_at", 4, "DATETIME", 0),
        ("weight", 5, "REAL4", 0),
        ("ratio", 6, "REAL8", 0),
        ("priority", 7, "UINT1", 0),
        ("stock", 8, "INT2", 0),
        ("status", 9, "STRING", 0),
    ]
    assert (columns["total"]["precision"], columns["total"]["scale"], columns["ordered_at"]["scale"]) == (
        19,
        4,
        3,
    )


def test_metadata_comes_before_the_data_and_has_an_id_of_its_own() -> None:
    log = simulate(9, 40)
    reported = list(qlik_messages.messages(log, envelope=False, snapshot=False))
    known: set[str] = set()
    for message in reported:
        payload = json.loads(message.value or b"")
        if "schemaId" in payload:
            known.add(payload["schemaId"])
        else:
            assert payload["headers"]["externalSchemaId"] in known
    assert len(known) == len(log.tables)
    assert {m.topic for m in reported} == {
        "qlik.dbo.customers",
        "qlik.sales.orders",
        "qlik.dbo.parts",
        "qlik.dbo.wide",
    }


def test_every_change_is_sent_once_and_steps_add_up_to_the_whole() -> None:
    log = simulate(9, 40)
    changes = Counter(c.operation for t in log.transactions for c in t.changes)
    settings: dict[str, Any] = {"envelope": True, "snapshot": False}
    whole: list[Message] = list(qlik_messages.messages(log, **settings))
    reported = Counter(
        payload["message"]["headers"]["operation"]
        for payload in (json.loads(m.value or b"") for m in whole)
        if payload["type"] == "DT"
    )
    assert reported == {
        "INSERT": changes["insert"],
        "UPDATE": changes["update"] + changes["key_update"],
        "DELETE": changes["delete"],
    }
    first = qlik_messages.messages(log, **settings, to_tx=13)
    assert [*first, *qlik_messages.messages(log, **settings, from_tx=13)] == whole


def test_sequences_rise_over_the_whole_task() -> None:
    reported = qlik_messages.messages(simulate(9, 200), envelope=False, snapshot=False)
    headers = [json.loads(m.value or b"").get("headers") for m in reported]
    sequences = [h["changeSequence"] for h in headers if h]
    assert {len(s) for s in sequences} == {35}
    assert sequences == sorted(set(sequences))
