"""Raw rows: bound by name, shown as text and as JSON, each with its own `source_position`."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeledger.dialects.tables.raw import numbered
from changeledger.dialects.tables.rows import RawRows, stored_names
from changeledger.kernels import json_rows
from changeledger.kernels.arrow import INSTANT, RECORD
from changeledger.kernels.cast_text import as_text, double, float32

RAW = pa.schema(
    [("window_id", pa.string()), ("source_position", RECORD), ("id", pa.int32()), ("a b", pa.string())]
)


def raw(*rows: tuple[str, int, str | None]) -> pa.RecordBatch:
    records = [
        {
            "window_id": "run",
            "source_position": {"source": "orders__ct", "row": place.encode()},
            "id": key,
            "a b": cell,
        }
        for place, key, cell in rows
    ]
    return pa.RecordBatch.from_pylist(records, RAW)


def test_rows_at_one_place_are_numbered() -> None:
    rows = raw(
        ("1I", 1, None), ("2I", 2, None), ("2I", 2, None), ("2I", 2, None), ("3I", 3, None), ("3I", 3, "x")
    )
    assert numbered(rows.slice(0, 2)).equals(rows.slice(0, 2))
    with_numbers = numbered(rows)
    assert with_numbers.schema == rows.schema
    numbers = [position["offset"] for position in with_numbers.column("source_position").to_pylist()]
    assert numbers[:4] == [None, None, 1, 2]
    assert sorted(numbers[4:], key=bool) == [None, 1], "the first has none"


def test_rows_that_differ_have_the_same_number_whatever_their_order() -> None:
    rows = [("1I", 1, None), ("1I", 2, None), ("1I", 1, "x"), ("1I", 3, None), ("2I", 1, None)]

    def reported(order: list[tuple[str, int, str | None]]) -> set[tuple[Any, ...]]:
        return {
            (row["id"], row["a b"], row["source_position"]["offset"])
            for row in numbered(raw(*order)).to_pylist()
        }

    assert reported(rows) == reported(rows[::-1]) == reported(Random(1).sample(rows, 5))


def test_names_that_are_taken_get_their_type() -> None:
    read = pa.schema(
        [("id", pa.int16()), ("Source_Position", pa.int32()), ("a", pa.string()), ("b", pa.decimal128(5, 2))]
    )
    stored = {"id": "int", "a": "int", "b": "decimal(5,2)"}
    assert stored_names(read, stored) == ["id", "Source_Position::int", "a::string", "b"]


def test_a_column_whose_own_name_ends_as_a_stored_one_does_is_another_column() -> None:
    """A column name may contain colons (Microsoft's page "Database identifiers").

    The column keeps its own cells.
    """
    read = pa.schema([("qty", pa.string()), ("Qty::string", pa.string()), ("n::int", pa.int16())])
    stored = stored_names(read, {})
    assert stored == ["qty", "Qty::string::string", "n::int::int"]
    rows = RawRows.of(
        pa.RecordBatch.from_arrays(
            [pa.array([None], pa.string()), pa.array(["other"]), pa.array([1], pa.int32())], stored
        )
    )
    assert [rows.text(name)[0].as_py() for name in read.names] == [None, "other", "1"]
    assert not rows.has("n")


def test_a_column_whose_type_changed_is_one() -> None:
    rows = RawRows.of(
        pa.RecordBatch.from_pydict(
            {"Qty": pa.array([1, None, None]), "qty::string": pa.array([None, "x", None])}
        )
    )
    assert rows.text("QTY").to_pylist() == ["1", "x", None]
    assert [rows.shown("qty")(row) for row in range(3)] == ["1", "x", "NULL"]
    assert not rows.has("source_position")


def test_values_as_spark_casts_them_to_text() -> None:
    """Expected: Spark's documentation of casts, and Java's of `Double.toString`."""
    at = datetime(2026, 8, 7, 16, 25, 0, 883000)
    assert as_text(pa.array([at, at.replace(microsecond=0), None], pa.timestamp("us"))).to_pylist() == [
        "2026-08-07 16:25:00.883", "2026-08-07 16:25:00", None,
    ]  # fmt: skip
    assert as_text(pa.array([at.replace(microsecond=100)], INSTANT)).to_pylist() == [
        "2026-08-07 16:25:00.0001"
    ]
    assert as_text(pa.array([Decimal("0.0000001"), Decimal(-12)], pa.decimal128(20, 7))).to_pylist() == [
        "0.0000001", "-12.0000000",
    ]  # fmt: skip
    assert as_text(pa.array([True, None])).to_pylist() == ["true", None]
    assert as_text(pa.array([date(1, 2, 3)])).to_pylist() == ["0001-02-03"]
    assert as_text(pa.array([b"ab"])).to_pylist() == ["ab"]


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (0.1, "0.1"), (0.001, "0.001"), (0.0001, "1.0E-4"),
     (1e7, "1.0E7"), (9999999.0, "9999999.0"), (12345678.9, "1.23456789E7"), (-1.5e300, "-1.5E300"),
     (float("inf"), "Infinity"), (float("nan"), "NaN"),
     # Java's Double.MIN_VALUE, and twice that: the text has at least two digits.
     (5e-324, "4.9E-324"), (-1e-323, "-9.9E-324"), (2e23, "2.0E23")],
)  # fmt: skip
def test_a_double_is_written_as_java_writes_it(number: float, text: str) -> None:
    assert double(number) == text
    for others in ([], [1e30]):
        assert as_text(pa.array([number, *others], pa.float64()))[0].as_py() == text


def test_a_float_has_the_digits_of_a_float() -> None:
    assert float32(pa.scalar(0.1, pa.float32()).as_py()) == "0.1"
    # Java's Float.MIN_VALUE.
    assert float32(pa.scalar(1.4e-45, pa.float32()).as_py()) == "1.4E-45"
    assert as_text(pa.array([0.1, 100.0], pa.float32())).to_pylist() == ["0.1", "100.0"]


def test_rows_as_spark_writes_them_in_json() -> None:
    """JSON omits NULL, and escapes only control characters. Times have three digits, bytes are base64."""
    at = datetime(2026, 8, 7, 16, 25, 0, 883999)
    columns = {
        "id": pa.array([1, 2]),
        'a"b': pa.array(['x"\\/\n\x1f\x7fü', None]),
        "lsn": pa.array([b"\x00\x01", None], pa.binary()),
        "at": pa.array([at, None], pa.timestamp("us")),
        "utc": pa.array([at, None], INSTANT),
        "d": pa.array([date(2026, 8, 7), None]),
        "n": pa.array([Decimal("0.0000000"), None], pa.decimal128(20, 7)),
        "f": pa.array([1e10, float("nan")]),
        "b": pa.array([True, None]),
        "none": pa.nulls(2, pa.string()),
    }
    assert json_rows.rows(columns, 2).to_pylist() == [
        '{"id":1,"a\\"b":"x\\"\\\\/\\n\\u001F\x7fü","lsn":"AAE=","at":"2026-08-07T16:25:00.883",'
        '"utc":"2026-08-07T16:25:00.883Z","d":"2026-08-07","n":0E-7,"f":1.0E10,"b":true}',
        '{"id":2,"f":"NaN"}',
    ]
    assert json_rows.rows({"a": pa.nulls(2, pa.string())}, 2).to_pylist() == ["{}", "{}"]
    assert json_rows.rows({}, 1).to_pylist() == ["{}"]


@given(st.lists(st.one_of(st.none(), st.text(), st.sampled_from(["\\u001f", "\\\\u00ff"])), max_size=5),
       st.lists(st.one_of(st.none(), st.binary(max_size=12)), max_size=5))  # fmt: skip
def test_json_is_what_it_was_made_of(texts: list[str | None], data: list[bytes | None]) -> None:
    size = min(len(texts), len(data))
    texts = [text if text is None else text.encode("utf-8", "replace").decode() for text in texts[:size]]
    columns = {"t": pa.array(texts, pa.string()), "b": pa.array(data[:size], pa.binary())}
    for row, text, binary in zip(json_rows.rows(columns, size).to_pylist(), texts, data, strict=False):
        read = json.loads(row)
        assert read.get("t") == text
        assert read.get("b") == (None if binary is None else b64encode(binary).decode())
