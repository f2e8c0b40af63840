"""SQL Server's types refuse values that the lake's types could hold (docs/types.md)."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from changeledger.kernels import ranges, sql_text, text_cells
from changeledger.kernels.arrow import arrow_type
from changeledger.model.sql_type import SqlType

# Microsoft's pages "money and smallmoney", "datetime", "smalldatetime".
FITS: list[tuple[str, str, Any]] = [
    ("money", "922337203685477.5807", Decimal("922337203685477.5807")),
    ("money", "-922337203685477.5808", Decimal("-922337203685477.5808")),
    ("smallmoney", "214748.3647", Decimal("214748.3647")),
    ("smallmoney", "-214748.3648", Decimal("-214748.3648")),
    ("datetime", "1753-01-01 00:00:00", datetime(1753, 1, 1)),
    ("datetime", "9999-12-31 23:59:59.997", datetime(9999, 12, 31, 23, 59, 59, 997_000)),
    ("smalldatetime", "1900-01-01 00:00:00", datetime(1900, 1, 1)),
    ("smalldatetime", "2079-06-06 23:59:00", datetime(2079, 6, 6, 23, 59)),
    ("datetime2(3)", "0001-01-01 00:00:30", datetime(1, 1, 1, 0, 0, 30)),
    ("decimal(19,4)", "999999999999999.9999", Decimal("999999999999999.9999")),
]
BEYOND = [
    ("money", "922337203685477.5808"),
    ("money", "-922337203685477.5809"),
    ("smallmoney", "214748.3648"),
    ("smallmoney", "-214748.3649"),
    ("datetime", "1752-12-31 23:59:59.997"),
    ("datetime", "9999-12-31 23:59:59.999"),
    ("smalldatetime", "1899-12-31 23:59:00"),
    ("smalldatetime", "2079-06-07 00:00:00"),
    ("smalldatetime", "2026-08-07 16:25:30"),
]


@pytest.mark.parametrize(("kind", "text", "value"), FITS)
def test_a_value_of_the_type_fits(kind: str, text: str, value: Any) -> None:
    sql = SqlType.parse(kind)
    cells = text_cells.from_texts(sql, sql_text.reader(sql))(pa.array([None, text]))
    assert cells.values.to_pylist() == [None, value]
    assert cells.unfit is None
    assert ranges.outside(sql, cells.values) is None


@pytest.mark.parametrize(("kind", "text"), BEYOND)
def test_a_value_beyond_the_type_does_not_fit(kind: str, text: str) -> None:
    sql = SqlType.parse(kind)
    in_lake = SqlType.parse("datetime2(3)" if "datetime" in kind else "decimal(19,4)")
    values = pa.array([None, sql_text.reader(in_lake)(text)], arrow_type(in_lake.spark))
    outside = ranges.outside(sql, values)
    assert outside is not None
    assert outside.tolist() == [False, True]
    assert sql_text.reader(sql)(text) is None
    cells = text_cells.from_texts(sql, sql_text.reader(sql))(pa.array([None, text]))
    assert cells.unfit is not None
    assert cells.unfit.tolist() == [False, True]
