"""Finds raw rows by one key, whose cells the source writes in forms of its own."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from changeledger.dialects.tables.keys import WithKey, typed
from changeledger.kernels.arrow import POSITIONS, RECORD
from changeledger.model.contract import Column, Contract

GUID = "260384EC-374E-B282-D611-43E6884A462A"


def contract(*kinds: str) -> Contract:
    columns = [
        Column(name=f"k{at}", type=kind, ordinal=at, key_position=at) for at, kind in enumerate(kinds, 1)
    ]
    return Contract(table="dbo.t", columns=(*columns, Column(name="other", type="int", ordinal=9)))


def with_key(key: dict[str, str], contract: Contract, **columns: Any) -> list[int]:
    """Returns the offsets of the rows that have the key."""
    size = len(next(iter(columns.values())))
    places = [{"source": "t", "partition": None, "offset": at, "row": None} for at in range(size)]
    raw = pa.record_batch({"source_position": pa.array(places, RECORD), **columns})
    rows = WithKey(typed(key, contract), contract)(raw)
    assert rows.schema == POSITIONS
    return [place["offset"] for place in rows.column(0).to_pylist()]


@pytest.mark.parametrize(
    ("kind", "key", "cells"),
    [
        # PostgreSQL prints a uuid in lower case.
        ("uniqueidentifier", GUID, [GUID.lower(), GUID, GUID.replace("2A", "2B"), None]),
        # SQL Server's own text for it.
        (
            "datetimeoffset(7)",
            "2018-07-13T12:23:45.4560000+11:00",
            ["2018-07-13 12:23:45.4560000 +11:00", "2018-07-13 12:23:45.456 +11:00",
             "2018-07-13 12:23:45.4560000 +10:00"],
        ),
        ("char(5)", "ab   ", ["ab", "ab   ", "Ab"]),
        ("decimal(10,2)", "77.00", [Decimal("77.00"), Decimal(77), Decimal("77.01")]),
        ("varbinary(8)", "0x0A0B", [b"\n\x0b", b"\n\x0b", b"\n"]),
    ],
)  # fmt: skip
def test_in_the_forms_of_a_type(kind: str, key: str, cells: list[Any]) -> None:
    assert with_key({"k1": key}, contract(kind), K1=cells) == [0, 1]


def test_a_column_that_had_another_type_and_a_key_of_two() -> None:
    """Older rows have the number in another column of the raw table."""
    key = {"k1": "7", "k2": "north"}
    columns = {
        "k1": pa.array([7, None, None, 7, None], pa.int32()),
        "k1::bigint": pa.array([None, 7, 8, None, None], pa.int64()),
        "k2": ["north", "north", "north", "south", "north"],
    }
    assert with_key(key, contract("bigint", "nvarchar(9)"), **columns) == [0, 1]
