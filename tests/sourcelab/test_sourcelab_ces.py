"""Simulated change event streaming writes what the format's page says, or what was worked out by hand."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from sourcelab import ces_avro
from sourcelab.ces import messages
from sourcelab.ces_values import wire_text
from sourcelab.log import Change, Log, Transaction, simulate
from sourcelab.tables import CUSTOMERS, ORDERS, PARTS, WIDE, Column
from tests.sourcelab.customer import NOON, ROW

COMMIT, BEGIN = bytes.fromhex("0000002C000007300011"), bytes.fromhex("0000002C00000730000C")
TEXTS = {
    "id": "7",
    "name": "Ann",
    "email": None,
    "active": "1",
    "credit": "1.5000",
    "created_at": "1970-01-01 00:00:01.000",
    "seen_at": "1969-12-31 23:59:59.999999",
    "born": "1970-01-02",
    "notes": "long",
}


def _log(*changes: tuple[Any, dict | None, dict | None, tuple[str, ...]]) -> Log:
    logged = [Change(CUSTOMERS, kind, b, a, COMMIT, 1, names, 1) for kind, b, a, names in changes]
    return Log((CUSTOMERS, ORDERS, PARTS, WIDE), (Transaction(NOON, NOON, BEGIN, COMMIT, tuple(logged)),))


def _reported(log: Log, **settings: Any) -> list[dict[str, Any]]:
    """Returns the envelopes, with the JSON texts inside them parsed."""
    read = [json.loads(m.value or b"") for m in messages(log, **settings)]
    for envelope in read:
        envelope["data"] = json.loads(envelope["data"])
        envelope["data"]["eventrow"] = {k: json.loads(v) for k, v in envelope["data"]["eventrow"].items()}
    return read


def test_an_insert_has_the_members_of_the_page() -> None:
    (reported,) = _reported(_log(("insert", None, ROW, ())))
    source = reported["data"].pop("eventsource")
    assert reported["data"] == {"eventrow": {"old": {}, "current": TEXTS}}
    assert (source["db"], source["schema"], source["tbl"]) == ("shop", "dbo", "customers")
    assert source["cols"][5] == {"name": "created_at", "type": "datetime2(3)", "index": 5}
    assert source["pkkey"] == [{"columnname": "id", "value": "7"}]
    assert {n: reported[n] for n in reported if n not in {"data", "id"}} == {
        "specversion": "1.0",
        "type": "com.microsoft.SQL.CES.DML.V1",
        "source": "/",
        "logicalid": "9c8d4ad2-bf54-4f10-a96f-038af496997f:0000002C000007300011:00000000000000000001",
        "time": "2024-03-01T12:00:00.125Z",
        "datacontenttype": "application/json",
        "operation": "INS",
        "segmentindex": 0,
        "finalsegment": True,
    }


@pytest.mark.parametrize(
    ("generation", "segment", "transaction"),
    [
        ("preview", {"splitindex": 0, "splittotalcnt": 0}, False),
        ("captured", {"segmentindex": 1, "finalsegment": True}, True),
        ("2026", {"segmentindex": 0, "finalsegment": True}, True),
    ],
)
def test_the_generations(generation: Any, segment: dict[str, Any], transaction: bool) -> None:
    (reported,) = _reported(_log(("insert", None, ROW, ())), generation=generation, zone="Europe/Berlin")
    assert {n: v for n, v in reported.items() if n.startswith(("segment", "final", "split"))} == segment
    shown = {
        "commitlsn": "0000002C:00000730:0011",
        "beginlsn": "0000002C:00000730:000C",
        "sequencenumber": 1,
        # The local time, an hour ahead of UTC, but still with a Z.
        "committime": "2024-03-01T13:00:00.125Z",
    }
    expected = shown | ({"finalevent": False} if generation == "2026" else {}) if transaction else None
    assert reported["data"]["eventsource"].get("transaction") == expected


@pytest.mark.parametrize(("generation", "final"), [("captured", b""), ("2026", b"\0")])
def test_avro_has_finalevent_before_committime(generation: Any, final: bytes) -> None:
    """By hand from the page's schema: an int 1 is 02, false is 00, a text of 24 bytes begins with 30."""
    log = _log(("insert", None, ROW, ()))
    (reported,) = ces_avro.messages(messages(log, generation=generation))
    assert b"0000002C:00000730:000C\x02" + final + b"\x302024-03-01T12:00:00.125Z" in (reported.value or b"")


def test_old_values_leave_the_large_one_out() -> None:
    (reported,) = _reported(_log(("update", ROW, ROW | {"name": "Bo"}, ("name",))))
    assert reported["data"]["eventrow"] == {
        "old": {n: t for n, t in TEXTS.items() if n != "notes"},
        "current": TEXTS | {"name": "Bo"},
    }


def test_only_changed_columns_keep_their_index() -> None:
    log = _log(("update", ROW, ROW | {"active": False}, ("active",)))
    (reported,) = _reported(log, all_columns=False, old_values=False)
    assert reported["data"]["eventrow"] == {"old": {}, "current": {"id": "7", "active": "0"}}
    assert [(c["name"], c["index"]) for c in reported["data"]["eventsource"]["cols"]] == [
        ("id", 0),
        ("active", 3),
    ]


def test_a_key_update_is_delete_and_insert_of_one_position() -> None:
    gone, come = _reported(_log(("key_update", ROW, ROW | {"id": 8}, ("id",))))
    assert (gone["operation"], come["operation"]) == ("DEL", "INS")
    assert gone["logicalid"] == come["logicalid"]
    assert gone["id"] != come["id"]
    assert gone["data"]["eventrow"]["current"] == come["data"]["eventrow"]["old"] == {}
    assert come["data"]["eventrow"]["current"] == TEXTS | {"id": "8"}
    keys = [e["data"]["eventsource"]["pkkey"][0]["value"] for e in (gone, come)]
    assert keys == ["7", "8"]


@pytest.mark.parametrize(
    ("generation", "segments"),
    [
        ("preview", [(0, 3), (1, 3), (2, 3)]),
        ("captured", [(1, False), (2, False), (3, True)]),
        ("2026", [(0, False), (1, False), (2, True)]),
    ],
)
def test_a_split_event_adds_up(generation: Any, segments: list[tuple[int, Any]]) -> None:
    log = _log(("insert", None, ROW, ()))
    whole = json.loads(next(messages(log, generation=generation)).value or b"")["data"]
    size = len(whole) // 3 + 1
    parts = [json.loads(m.value or b"") for m in messages(log, generation=generation, split_at=size)]
    assert "".join(p["data"] for p in parts) == whole
    names = ("splitindex", "splittotalcnt") if generation == "preview" else ("segmentindex", "finalsegment")
    assert [tuple(p[n] for n in names) for p in parts] == segments
    assert len({p["logicalid"] for p in parts}) == 1
    assert len({p["id"] for p in parts}) == 3


@pytest.mark.parametrize(
    ("kind", "value", "written"),
    [
        ("bigint", 2**53 + 1, "9007199254740993"),
        ("money", Decimal("-0.0500"), "-0.0500"),
        ("datetime", datetime(2025, 3, 14, 16, 45, 1), "2025-03-14 16:45:01.000"),
        ("datetime2(6)", datetime(2026, 8, 7, 16, 25, 0, 883_333), "2026-08-07 16:25:00.883333"),
        ("datetimeoffset(3)", "2018-07-13T12:23:45.456+11:00", "2018-07-13 12:23:45.456 +11:00"),
        ("varbinary(50)", b"\x00\xff", "0x00FF"),
        ("real", 0.10000000149011612, "0.1"),
        ("char(10)", "EU        ", "EU        "),
        ("bit", False, "0"),
        ("xml", None, None),
    ],
)
def test_a_value(kind: str, value: object, written: object) -> None:
    assert wire_text(Column("c", kind, 1), value) == written


def test_every_change_is_sent() -> None:
    log = simulate(9, 200)
    changes = Counter(c.operation for t in log.transactions for c in t.changes)
    keys = changes["key_update"]
    assert Counter(e["operation"] for e in _reported(log)) == {
        "INS": changes["insert"] + keys,
        "DEL": changes["delete"] + keys,
        "UPD": changes["update"],
    }


def test_steps_add_up_to_the_whole() -> None:
    log = simulate(9, 40)
    steps = [*messages(log, to_tx=11), *messages(log, from_tx=11)]
    assert steps == list(messages(log))
