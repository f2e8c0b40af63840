"""Casts cells of any type to the contract's types. Casting a whole column gives the same as text by text."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changeledger.dialects.tables import values
from changeledger.dialects.tables.rows import RawRows
from changeledger.kernels import cells, text_cells
from changeledger.kernels.arrow import arrow_type
from changeledger.model.contract import Column, Contract
from changeledger.model.sql_type import SqlType

NEAR = {
    "int": r"-?[0-9]{1,11}",
    "tinyint": r"-?[0-9]{1,3}",
    "bigint": r"\+?-?[0-9]{1,20}",
    "decimal(6,2)": r"-?[0-9]{1,5}(\.[0-9]{0,3})?",
    "decimal(4,4)": r"-?0?\.[0-9]{1,5}",
    "decimal(38,0)": r"-?[0-9]{36,39}",
    "money": r"-?[0-9]{1,4}(\.[0-9]{1,5})?",
    "float": r"-?[0-9]{1,5}(\.[0-9]{1,18})?([eE]-?[0-9]{1,3})?",
    "bit": r"0|1|true|false|TRUE|t|2",
    "date": r"(19|20|00)[0-9]{2}-[01][0-9]-[0-3][0-9]( 00:00:00(\.0)?Z?)?",
    "datetime": r"2026-0[1-9]-[0-3][0-9][ T]([01][0-9]|2[0-5]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,7})?Z?",
    "smalldatetime": r"2026-0[1-9]-[0-3][0-9][ T][01][0-9]:[0-5][0-9](:[0-5][0-9])?",
    "datetime2(6)": r"[02]0[02]6-0[1-9]-[0-3][0-9][ T][01][0-9]:[0-5][0-9]:[0-6][0-9](\.[0-9]{1,7})?",
    "datetime2(7)": r"[02]026-0[1-9]-[0-3][0-9][ T][01][0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]{6,8})?",
    "time(3)": r"[0-2][0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]{2,4})?",
    "time(0)": r"[0-2][0-9]:[0-5][0-9]:[0-5][0-9](\.0)?",
    "datetimeoffset(3)": r"2026-0[1-9]-[0-3]1[ T]1[0-9]:00:00(\.[0-9]{2,4})? ?([+-]0[0-2]:[03]0|Z|\+02)",
    "datetimeoffset(0)": r"2026-0[1-9]-[0-3][0-9][ T]1[0-9]:[0-5][0-9]:[0-5][0-9] ?[+-]0[0-2]:00",
    "uniqueidentifier": r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{11,12}",
    "char(4)": r"[a-zé]{0,5}",
    "nchar(4)": r"[a-zé\U0001f600]{0,5}",
}  # fmt: skip


def one_by_one(texts: pa.StringArray, sql: SqlType) -> pa.Array:
    return cells.one_by_one(text_cells.lenient_reader(sql), arrow_type(sql.spark))(texts).values


@pytest.mark.parametrize("kind", NEAR)
def test_a_column_at_once_is_what_its_texts_are_one_by_one(kind: str) -> None:
    sql = SqlType.parse(kind)
    text = st.from_regex(NEAR[kind], fullmatch=True, alphabet=st.characters(codec="utf-8"))

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.one_of(text, text, text, st.none()), min_size=1, max_size=3))
    def same(texts: list[str | None]) -> None:
        column = pa.array(texts, pa.string())
        assert values.of_texts(column, sql).equals(one_by_one(column, sql))

    same()


USUAL = {
    "int": "-12", "decimal(6,2)": "-1.5", "float": "1.5e3", "bit": "true", "date": "2026-08-07",
    "datetime": "2026-08-07 16:25:00.883", "datetime2(6)": "2026-08-07T16:25:00.883333",
    "datetime2(7)": "2026-08-07 16:25:00.8833333", "time(3)": "16:25:00.883",
    "datetimeoffset(7)": "2026-08-07 16:25:00.8830000 +05:30",
    "uniqueidentifier": "6f9619ff-8b86-d011-b42d-00c04fc964ff", "char(4)": "ab",
}  # fmt: skip


@pytest.mark.parametrize("kind", USUAL)
def test_usual_texts_are_read_at_once(kind: str) -> None:
    column = pa.array([USUAL[kind], None])
    sql = SqlType.parse(kind)
    assert text_cells.from_texts(sql, pytest.fail)(column).values.equals(one_by_one(column, sql))


GUID = "6F9619FF-8B86-D011-B42D-00C04FC964FF"

# The canonical text of each type that is published as text, written by hand from docs/types.md. By type: the
# text as written, and as published (None: no value of the type).
GOLDEN: dict[str, list[tuple[str, str | None]]] = {
    "datetimeoffset(7)": [
        ("2026-08-07T16:25:06.863899+01:00", "2026-08-07T16:25:06.8638990+01:00"),
        ("2026-08-07 16:25:06.8638990 +01:00", "2026-08-07T16:25:06.8638990+01:00"),
        # As PostgreSQL prints whole hours.
        ("2026-08-07 16:25:06.863899+01", "2026-08-07T16:25:06.8638990+01:00"),
        # Four ways to write UTC.
        ("2026-08-07T00:00:00Z", "2026-08-07T00:00:00.0000000+00:00"),
        ("2026-08-07T00:00:00.0000000+00:00", "2026-08-07T00:00:00.0000000+00:00"),
        ("2026-08-07T00:00:00-00:00", "2026-08-07T00:00:00.0000000+00:00"),
        ("2026-08-07 00:00:00+00", "2026-08-07T00:00:00.0000000+00:00"),
        ("2026-08-07T00:00:00-00:30", "2026-08-07T00:00:00.0000000-00:30"),
        ("2026-08-07T00:00:00", None),
    ],
    "datetimeoffset(0)": [
        ("2026-08-07T16:25:06Z", "2026-08-07T16:25:06+00:00"),
        ("2026-08-07T16:25:06.000Z", "2026-08-07T16:25:06+00:00"),
        ("2026-08-07T16:25:06.1Z", None),
    ],
    "time(7)": [("16:25:00.88", "16:25:00.8800000"), ("16:25:00", "16:25:00.0000000")],
    "time(3)": [("16:25:00.8800000", "16:25:00.880"), ("16:25:00.8801", None)],
    "datetime2(7)": [
        ("2026-08-07T16:25:00.88", "2026-08-07 16:25:00.8800000"),
        ("2026-08-07 16:25:00", "2026-08-07 16:25:00.0000000"),
        ("2026-08-07T16:25:00Z", "2026-08-07 16:25:00.0000000"),
        ("2026-08-07T16:25:00ZZ", None),
    ],
    "uniqueidentifier": [(GUID.lower(), GUID), (GUID, GUID), (f"{{{GUID}}}", None)],
    # For nchar, the length counts UTF-16 units. For char, it counts bytes of a code page: known only for
    # ASCII.
    "nchar(5)": [("ab", "ab   "), ("ab   ", "ab   "), ("", "     "), ("é", "é    "), ("😀", "😀   ")],
    "char(5)": [("ab", "ab   "), ("", "     "), ("a b c", "a b c"), ("é   ", "é   ")],
    "char": [("", " "), ("a", "a")],
}


@pytest.mark.parametrize("kind", GOLDEN)
def test_each_type_has_one_text(kind: str) -> None:
    written, published = zip(*GOLDEN[kind], strict=True)
    sql = SqlType.parse(kind)
    assert values.of_texts(pa.array(written), sql).to_pylist() == list(published)
    for text, wanted in GOLDEN[kind]:
        assert values.of_texts(pa.array([text]), sql).to_pylist() == [wanted]


NONE = None
CASTS: list[tuple[Any, pa.DataType, str, Any]] = [
    # A number stays the same number in the type, or does not fit. It is never rounded or cut (docs/types.md).
    (5, pa.int32(), "smallint", 5),
    (40_000, pa.int32(), "smallint", NONE),
    (256, pa.int32(), "tinyint", NONE),
    (1.9, pa.float64(), "int", NONE),
    (-2.0, pa.float64(), "int", -2),
    (32767.0, pa.float64(), "smallint", 32767),
    (32768.0, pa.float64(), "smallint", NONE),
    (-32768.0, pa.float64(), "smallint", -32768),
    (-32769.0, pa.float64(), "smallint", NONE),
    (1e10, pa.float64(), "int", NONE),
    # Python cannot divide a number of more than 28 digits.
    (1e30, pa.float64(), "int", NONE),
    (Decimal(10**30), pa.decimal128(38, 0), "bigint", NONE),
    (float("nan"), pa.float64(), "int", NONE),
    (Decimal("2.5"), pa.decimal128(4, 1), "int", NONE),
    (Decimal("2.0"), pa.decimal128(4, 1), "int", 2),
    (Decimal("1.005"), pa.decimal128(5, 3), "decimal(10,2)", NONE),
    (Decimal("1.500"), pa.decimal128(5, 3), "decimal(10,2)", Decimal("1.50")),
    (Decimal("1.23456"), pa.decimal128(19, 5), "money", NONE),
    # Beyond SQL Server's own ranges (docs/types.md).
    (Decimal("922337203685477.5808"), pa.decimal128(19, 4), "money", NONE),
    (Decimal("922337203685477.5807"), pa.decimal128(19, 4), "money", Decimal("922337203685477.5807")),
    (Decimal("214748.3648"), pa.decimal128(10, 4), "smallmoney", NONE),
    (Decimal("1.5"), pa.decimal128(5, 1), "decimal(10,2)", Decimal("1.50")),
    (Decimal("123.5"), pa.decimal128(5, 1), "decimal(3,1)", NONE),
    # It needs more than 128 bits: Arrow would give 0.0634...
    (Decimal(2**63), pa.decimal128(38, 0), "decimal(38,38)", NONE),
    (Decimal("38620193900484863378234.97804"), pa.decimal128(28, 5), "decimal(38,34)", NONE),
    (Decimal("12.5"), pa.decimal128(38, 1), "decimal(38,36)", Decimal("12.5")),
    (0.125, pa.float64(), "decimal(10,2)", NONE),
    (0.1, pa.float64(), "decimal(10,2)", Decimal("0.10")),
    # A double keeps 15 digits, a 32-bit number 6. A number with more digits was rounded.
    (123456789012.345, pa.float64(), "decimal(22,4)", Decimal("123456789012.3450")),
    (1.2345678901234567e17, pa.float64(), "decimal(22,4)", NONE),
    (0.1, pa.float32(), "decimal(10,2)", Decimal("0.10")),
    (16777216.0, pa.float32(), "decimal(10,2)", NONE),
    (2**53, pa.int64(), "float", 2.0**53),
    (2**53 + 1, pa.int64(), "float", NONE),
    (2**53 + 2, pa.int64(), "float", 2.0**53 + 2),
    (2.0**53, pa.float64(), "bigint", NONE),
    (7, pa.int64(), "decimal(10,2)", Decimal("7.00")),
    (1e300, pa.float64(), "real", NONE),
    (0.5, pa.float64(), "real", 0.5),
    # Microsoft's page "CAST and CONVERT": the 64-bit number is the same one, not the one of the same text.
    (0.1, pa.float32(), "float", 0.10000000149011612),
    # 24 bits of a number (IEEE 754): 2^24 + 1 has no 32-bit form. 0.1 has the same shortest text in both.
    (2.0**24, pa.float64(), "real", 2.0**24),
    (2.0**24 + 1, pa.float64(), "real", NONE),
    (2**24 + 1, pa.int32(), "real", NONE),
    (2**62, pa.int64(), "real", 2.0**62),
    (2**62 + 1, pa.int64(), "real", NONE),
    (0.1, pa.float64(), "real", float(np.float32(0.1))),
    (0.12345678901, pa.float64(), "real", NONE),
    (Decimal("0.1"), pa.decimal128(2, 1), "real", float(np.float32(0.1))),
    (Decimal("16777216.5"), pa.decimal128(9, 1), "real", NONE),
    (Decimal("16777216.0000000001"), pa.decimal128(18, 10), "real", NONE),
    # Arrow returns the double next to the right one.
    (Decimal("1.0050"), pa.decimal128(18, 4), "float", 1.005),
    (Decimal("-214748.3649"), pa.decimal128(18, 4), "float", -214748.3649),
    (Decimal("9007199254740993.00"), pa.decimal128(38, 2), "float", NONE),
    (Decimal("99999999999999.9999"), pa.decimal128(18, 4), "float", NONE),
    (Decimal(10**30), pa.decimal128(38, 0), "float", 1e30),
    # SQL Server's own types have no such numbers, whatever the target's column can hold.
    (float("nan"), pa.float64(), "float", NONE),
    (float("-inf"), pa.float32(), "real", NONE),
    (-1, pa.int16(), "tinyint", NONE),
    (256, pa.int16(), "tinyint", NONE),
    (3, pa.int32(), "float", 3.0),
    # Other types are read through their text.
    (1, pa.int32(), "bit", True),
    (2, pa.int32(), "bit", NONE),
    (True, pa.bool_(), "int", NONE),
    (True, pa.bool_(), "nvarchar(9)", NONE),
    (False, pa.bool_(), "bit", False),
    (5, pa.int32(), "nvarchar(9)", "5"),
    (0.1, pa.float64(), "nvarchar(9)", "0.1"),
    (5, pa.int32(), "varbinary(9)", NONE),
    ("0x0aFF", pa.string(), "varbinary(9)", b"\x0a\xff"),
    ("0xaFF", pa.string(), "varbinary(9)", NONE),
    ("0x0aFF", pa.string(), "varbinary(1)", NONE),
    ("0x0aFF", pa.string(), "rowversion", NONE),
    ("é".encode(), pa.binary(), "nvarchar(9)", "é"),
    (b"ab", pa.binary(), "nchar(4)", "ab  "),
    (b"\xff", pa.binary(), "nvarchar(9)", NONE),
    # Microsoft's page "binary and varbinary": a binary is padded with zeros to its length.
    ("0x0aFF", pa.string(), "binary(2)", b"\x0a\xff"),
    ("0x0aFF", pa.string(), "binary(3)", NONE),
    # Bytes of a rowversion or GUID are not a number, even if they are digits.
    (b"12345678", pa.binary(), "bigint", NONE),
    (b"1", pa.binary(), "bit", NONE),
    (b"2026-08-07", pa.binary(), "date", NONE),
    (b"16:25:00", pa.binary(), "time(0)", NONE),
    ("0xGG", pa.string(), "varbinary(9)", NONE),
    (date(2026, 8, 7), pa.date32(), "datetime2(3)", datetime(2026, 8, 7)),
    (
        datetime(2026, 8, 7, 16, 25, 0, 883300),
        pa.timestamp("us"),
        "datetime2(7)",
        "2026-08-07 16:25:00.8833000",
    ),
    # SQL Server columns with one digit more than Spark's timestamps are read as text (`jdbc.as_text`).
    ("2026-08-07 16:25:00.8833333", pa.string(), "datetime2(6)", NONE),
    ("2026-08-07 16:25:00.8833330", pa.string(), "datetime2(6)", datetime(2026, 8, 7, 16, 25, 0, 883333)),
    ("2026-08-07 16:25:00.8833333", pa.string(), "nvarchar(30)", "2026-08-07 16:25:00.8833333"),
    # As in texts: a target's type may have more fractional digits than the source's.
    (
        datetime(2026, 8, 7, 16, 25, 0, 883333),
        pa.timestamp("us"),
        "datetime",
        datetime(2026, 8, 7, 16, 25, 0, 883000),
    ),
    (datetime(2026, 8, 7, 16, 25, 0, 883100), pa.timestamp("us"), "datetime", NONE),
    (
        datetime(2026, 8, 7, 16, 25, 0, 883000),
        pa.timestamp("us"),
        "datetime2(3)",
        datetime(2026, 8, 7, 16, 25, 0, 883000),
    ),
    (datetime(2026, 8, 7, 16, 25, 0, 883100), pa.timestamp("us"), "datetime2(3)", NONE),
    (datetime(2026, 8, 7, 16, 25, 0, 500000), pa.timestamp("us"), "datetime2(0)", NONE),
    (datetime(2026, 8, 7, 16, 25, 30), pa.timestamp("us"), "smalldatetime", NONE),
    # A text with an offset, as SQL Server prints it (`jdbc.as_text`), is not a time without one.
    ("2026-08-07 16:25:00.8830000 +02:00", pa.string(), "datetime2(6)", NONE),
    ("2026-08-07 16:25:00.8830000 +02:00", pa.string(), "nvarchar(40)", "2026-08-07 16:25:00.8830000 +02:00"),
    (datetime(2026, 8, 7), pa.timestamp("us"), "date", date(2026, 8, 7)),
    ("ab", pa.string(), "nchar(4)", "ab  "),
    ("2026-08-07 18:25:06.8638+02", pa.string(), "datetimeoffset(5)", "2026-08-07T18:25:06.86380+02:00"),
]


@pytest.mark.parametrize(("value", "read", "kind", "expected"), CASTS)
def test_values_of_another_type(value: Any, read: pa.DataType, kind: str, expected: Any) -> None:
    rows = RawRows.of(pa.RecordBatch.from_arrays([pa.array([value, None], read)], ["a"]))
    cells = values.cells_of(rows, Column(name="A", type=kind, ordinal=1), empty_is_null=False)
    assert cells.values.to_pylist() == [expected, None]
    assert (cells.unfit is not None and bool(cells.unfit[0])) == (expected is None)


def test_a_finer_time_does_not_fit_among_others() -> None:
    at = datetime(2026, 8, 7, 16, 25)
    times = pa.array([at, at + timedelta(microseconds=100)], pa.timestamp("us"))
    rows = RawRows.of(pa.RecordBatch.from_arrays([times], ["at"]))
    cells = values.cells_of(rows, Column(name="at", type="datetime2(3)", ordinal=1), empty_is_null=False)
    assert cells.values.to_pylist() == [at, None]


def test_an_empty_text_is_null_where_the_feed_says_so() -> None:
    rows = RawRows.of(pa.RecordBatch.from_arrays([pa.array(["", "1"])], ["a"]))
    for kind, expected in (("nvarchar(9)", "1"), ("int", 1)):
        cells = values.cells_of(rows, Column(name="a", type=kind, ordinal=1), empty_is_null=True)
        assert (cells.values.to_pylist(), cells.unfit) == ([None, expected], None)
    cells = values.cells_of(rows, Column(name="a", type="nvarchar(9)", ordinal=1), empty_is_null=False)
    assert cells.values.to_pylist() == ["", "1"]


def test_rows_of_a_table_itself_have_the_types_of_its_contract() -> None:
    """A table may have a column named `source_position`, as raw tables do."""
    contract = Contract(
        table="dbo.t",
        columns=(
            Column(name="source_position", type="int", ordinal=1, key_position=1),
            Column(name="at::string", type="datetime2(3)", ordinal=2),
            Column(name="lost", type="bit", ordinal=3),
        ),
    )
    read = pa.RecordBatch.from_pydict(
        {
            "At::string": pa.array(["2026-08-07 16:25", "soon", None]),
            "other": pa.array([1, 2, 3]),
            "SOURCE_POSITION": pa.array([1, 2, 3], pa.int64()),
        }
    )
    typed = values.typed(read, contract)
    assert typed.schema == values.typed_schema(contract)
    assert typed.to_pydict() == {
        "source_position": [1, 2, 3], "at::string": [datetime(2026, 8, 7, 16, 25), None, None],
        "lost": [None] * 3,
        # A proof must not mistake unreadable values for NULL.
        "_unknown_columns": [None, ["at::string"], None],
    }  # fmt: skip
