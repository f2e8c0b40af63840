"""When cells of two feeds have the same value, and when the same text: by hand, for each kind of column."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from changeledger.compare.cells import hashed
from changeledger.kernels.arrow import arrow_type
from changeledger.kernels.equality import Conversion, Form, form_of
from changeledger.model.contract import Column

GUID = "6F9619FF-8B86-D011-B42D-00CF4FC964FF"

SAME, LOOKS_OTHER, DIFFERS = "same", "same value, other text", "differs"
# By the types in both feeds: a cell of each as SQL text, and how they compare.
GOLDEN = {
    ("uniqueidentifier", "uniqueidentifier"): [
        (GUID, GUID, SAME),
        (GUID, GUID.lower(), LOOKS_OTHER),
        (GUID, GUID.replace("6F", "6E"), DIFFERS),
    ],
    # As another kind of target stores it.
    ("uniqueidentifier", "varchar(36)"): [(GUID, GUID.lower(), LOOKS_OTHER)],
    ("nchar(5)", "nvarchar(5)"): [("x    ", "x", LOOKS_OTHER)],
    ("datetimeoffset", "varchar(40)"): [
        ("2026-08-07 16:25:00 +02:00", "2026-08-07 14:25:00.000 +00:00", LOOKS_OTHER)
    ],
    # Each column has as many digits as its type.
    ("time(3)", "time(7)"): [
        ("16:25:00.120", "16:25:00.1200000", LOOKS_OTHER),
        ("16:25:00.000", "16:25:00.0000000", LOOKS_OTHER),
        ("16:25:00.120", "16:25:00.1200001", DIFFERS),
    ],
    ("char(5)", "char(5)"): [
        ("x    ", "x", LOOKS_OTHER),
        ("x", " x", DIFFERS),
        ("x", "X", DIFFERS),
        ("x", None, DIFFERS),
        (None, None, SAME),
    ],
    ("varchar(5)", "varchar(5)"): [("x ", "x", DIFFERS), ("x", "X", DIFFERS)],
    ("datetimeoffset(3)", "datetimeoffset(3)"): [
        ("2026-08-07 16:25:00.120 +02:00", "2026-08-07T14:25:00.12Z", LOOKS_OTHER),
        ("2026-08-07 23:30:00 -02:00", "2026-08-08 01:30:00.000 +00:00", LOOKS_OTHER),
        # The same clock, another instant.
        ("2026-08-07 16:25:00 +02:00", "2026-08-07 16:25:00 +03:00", DIFFERS),
        # A text that is not a time is compared as it is.
        ("soon", "soon", SAME),
        ("soon", "later", DIFFERS),
    ],
    # The seventh digit of a second, which Spark's timestamps cannot hold.
    ("datetimeoffset(7)", "datetimeoffset(7)"): [
        ("2026-08-07 16:25:00.1234567 +02:00", "2026-08-07 14:25:00.1234567 +00:00", LOOKS_OTHER),
        ("2026-08-07 16:25:00.1234567 +02:00", "2026-08-07 16:25:00.1234568 +02:00", DIFFERS),
    ],
    ("int", "int"): [(5, 5, SAME), (5, 6, DIFFERS)],
    ("bit", "bit"): [(False, None, DIFFERS)],
    ("smallint", "bigint"): [(5, 5, SAME)],
    # Beyond the precision of a double.
    ("bigint", "decimal(38,0)"): [
        (9007199254740993, Decimal("9007199254740993"), SAME),
        (9007199254740993, Decimal("9007199254740992"), DIFFERS),
    ],
    ("decimal(18,2)", "decimal(18,4)"): [
        (Decimal("1.10"), Decimal("1.1000"), SAME),
        (Decimal("1.10"), Decimal("1.1001"), DIFFERS),
    ],
    ("money", "int"): [(Decimal(5), 5, SAME)],
    ("varbinary(2)", "binary(2)"): [(b"\x0a", b"\x0a", SAME), (b"\x0a", b"\x0a\x00", DIFFERS)],
    # The lake holds seven digits as text, fewer as a timestamp.
    ("datetime2(7)", "datetime2(3)"): [
        ("2026-08-07 16:25:00.1230000", datetime.fromisoformat("2026-08-07 16:25:00.123"), LOOKS_OTHER),
        ("2026-08-07 16:25:00.0000000", datetime.fromisoformat("2026-08-07 16:25:00"), LOOKS_OTHER),
        ("2026-08-07 16:25:00.1230001", datetime.fromisoformat("2026-08-07 16:25:00.123"), DIFFERS),
    ],
    ("real", "float"): [(0.1, 0.1, SAME)],
    ("float", "int"): [(5.0, 5, LOOKS_OTHER), (1e7, 10_000_000, LOOKS_OTHER), (-0.0, 0, LOOKS_OTHER)],
    # Spark prints large and small floats with an exponent. Trailing zeros of an exponent are not those of a
    # fraction.
    ("float", "decimal(38,10)"): [
        (12345678.9, Decimal("12345678.9000000000"), LOOKS_OTHER),
        (0.0001, Decimal("0.0001000000"), LOOKS_OTHER),
        (1.5e20, Decimal("150000000000000000000.0000000000"), LOOKS_OTHER),
        (1.5e20, Decimal("150.0000000000"), DIFFERS),
    ],
    ("float", "real"): [(1.5e200, 1.5e20, DIFFERS), (1.5e20, 1.5e20, SAME), (None, 1e10, DIFFERS)],
    ("int", "varchar(9)"): [(100, "100", SAME), (100, "1", DIFFERS)],
    # A day as its midnight: by `cast: timestamp` in one feed's `publish:`, or a target's own type.
    ("date", "datetime2(6)"): [
        (date(2026, 8, 7), datetime.fromisoformat("2026-08-07"), LOOKS_OTHER),
        (date(2026, 8, 7), datetime.fromisoformat("2026-08-07 00:00:00.000001"), DIFFERS),
        (date(2026, 8, 7), datetime.fromisoformat("2026-08-07 00:00:10"), DIFFERS),
        (date(2026, 8, 7), datetime.fromisoformat("2026-08-08"), DIFFERS),
    ],
    ("date", "datetime2(7)"): [
        (date(2026, 8, 7), "2026-08-07 00:00:00.0000000", LOOKS_OTHER),
        (date(2026, 8, 7), "2026-08-07 00:00:00.0000001", DIFFERS),
    ],
    ("date", "varchar(10)"): [(date(2026, 8, 7), "2026-08-07", SAME)],
}


def column(kind: str) -> Column:
    return Column(name="c", type=kind, ordinal=1)


def hash_of(value: Any, kind: str, form: Conversion | None) -> int:
    cells = pa.array([value], arrow_type(column(kind).spark_type))
    return int(hashed([cells if form is None else form(cells)], 1)[0])


@pytest.mark.parametrize(("kinds", "cells"), GOLDEN.items(), ids=map("-".join, GOLDEN))
def test_the_same_value_and_the_same_text(kinds: tuple[str, str], cells: list[tuple[Any, Any, str]]) -> None:
    for one_kind, other_kind in (kinds, kinds[::-1]):
        form = form_of(column(one_kind), column(other_kind))
        for cell, other, wanted in cells:
            pair = (cell, other) if one_kind == kinds[0] else (other, cell)
            same = [
                hash_of(pair[0], one_kind, hashing) == hash_of(pair[1], other_kind, hashing)
                for hashing in (form.value, form.text or form.value)
            ]
            said = SAME if all(same) else LOOKS_OTHER if same[0] else DIFFERS
            assert (cell, other, said) == (cell, other, wanted)


def test_nothing_is_done_to_cells_that_equal_only_themselves() -> None:
    for kind in (
        "int",
        "bit",
        "decimal(18,4)",
        "nvarchar(50)",
        "datetime2(6)",
        "varbinary(9)",
        "xml",
        "float",
    ):
        assert form_of(column(kind), column(kind)) == Form()
