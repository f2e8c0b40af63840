"""Reading a column of texts gives the same values as reading each text."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changeledger.kernels import cells, sql_text, text_cells
from changeledger.kernels.arrow import arrow_type
from changeledger.model.sql_type import SqlType

TYPES = (
    "tinyint", "smallint", "int", "bigint", "bit", "real", "float", "decimal(9,2)", "decimal(38,10)",
    "decimal(5,5)", "money", "date", "time(0)", "time(3)", "time(7)", "datetime", "smalldatetime",
    "datetime2(0)", "datetime2(3)", "datetime2(6)", "datetime2(7)", "datetimeoffset(7)", "uniqueidentifier",
    "char(3)", "nchar(3)", "nvarchar(9)",
)  # fmt: skip
WHOLE = st.integers(-(2**65), 2**65).map(str) | st.integers(-300, 300).map(str)
NUMBER = st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str) | st.floats().map(repr)
TIME = st.datetimes().map(lambda at: at.isoformat(" ")) | st.times().map(str) | st.dates().map(str)
FORMS = st.from_regex(
    r"\A(0000|0001|2026|9999)-(02-29|02-30|12-31|08-07)"
    r"([ T](00|23|24):(00|59):(00|59|60)([.][0-9]{1,10})?)?\Z"
)
ODD = st.sampled_from(
    ["", " 5", "+5", "007", "0x10", "1_0", "1e3", "1E-3", ".5", "5.", "-0", "NaN", "inf", "1e999", "٣",
     "true", "T", "2026-08-07 16:25:00.8833333", "2026-08-07T16:25:00Z", "16:25:00.0000000000", "日本", "1d",
     "-", "256", "2026-08-07 16:25:00.8866667", "2026-08-07 16:25:00.88666670", "0001-01-01 00:00:00.9966667",
     "9999-12-31 23:59:59.9966667", "2026-08-07 16:25:00.8866666", "2026-08-07 16:25:00.88666",
     "1900-01-01 00:00:00.003333333"]
)  # fmt: skip
TEXTS = st.lists(st.none() | WHOLE | NUMBER | TIME | FORMS | ODD | st.text(max_size=6), max_size=12)


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=150, deadline=None)
@given(texts=TEXTS)
def test_a_column_is_read_as_its_texts_are(name: str, texts: list[str | None]) -> None:
    sql = SqlType.parse(name)
    read = sql_text.reader(sql)
    column = pa.array(texts, pa.string())
    vectorised = text_cells.from_texts(sql, read)(column)
    one_by_one = cells.one_by_one(read, arrow_type(sql.spark))(column)
    assert vectorised.values.type == one_by_one.values.type
    assert vectorised.values.to_pylist() == one_by_one.values.to_pylist()
    assert (vectorised.unfit is not None) == (one_by_one.unfit is not None)
    if vectorised.unfit is not None and one_by_one.unfit is not None:
        assert vectorised.unfit.tolist() == one_by_one.unfit.tolist()


@pytest.mark.parametrize("text", ["4", "-4", "3.5", "7", "1", "0.99999999999999999999999999999999999999"])
def test_a_decimal_of_places_alone_has_no_whole_number(text: str) -> None:
    """SQL Server's decimal(38,38) is less than 1.

    Arrow casts 4 to 0.597..., as the unscaled number exceeds 128 bits.
    """
    sql = SqlType.parse("decimal(38,38)")
    column = text_cells.from_texts(sql, sql_text.reader(sql))(pa.array([text, "0.5"]))
    fitting = Decimal(text) if text.startswith("0.") else None
    assert column.values.to_pylist() == [fitting, Decimal("0.5")]
    assert (column.unfit is None) is (fitting is not None)


def test_a_datetime_as_ces_writes_it_is_read_in_columns() -> None:
    """Seven digits of thirds of 10 ms are read vectorised: one by one takes a hundred times as long."""
    begin = "2026-08-07 16:25:00"
    texts = [begin + text for text in ("", ".8800000", ".8833333", ".8866667", ".0000000", ".9966667")]
    cells_of = text_cells.from_texts(SqlType.parse("datetime"), pytest.fail)(pa.array([*texts, None]))
    millis = [None if at is None else at.microsecond / 1000 for at in cells_of.values.to_pylist()]
    assert millis == [0, 880, 883, 887, 0, 997, None]
    assert cells_of.unfit is None
