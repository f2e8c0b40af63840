"""Texts of cells and keys, as Spark's CAST to STRING (ANSI, UTC) and `to_json` write them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from changeledger.kernels import display
from changeledger.kernels.arrow import INSTANT
from changeledger.model.contract import Column, Contract

AT = datetime(2026, 8, 7, 16, 25, 0, 120_000)

# A value, its Arrow type, its text, and the key `{"k": value}` as JSON.
CASES: list[tuple[Any, pa.DataType, str, str]] = [
    (True, pa.bool_(), "true", '{"k":true}'),
    (-5, pa.int64(), "-5", '{"k":-5}'),
    (Decimal("0.0000001000"), pa.decimal128(18, 10), "0.0000001000", '{"k":1.000E-7}'),
    (Decimal("12.50"), pa.decimal128(9, 2), "12.50", '{"k":12.50}'),
    (0.1, pa.float32(), "0.1", '{"k":0.1}'),
    (1.0, pa.float64(), "1.0", '{"k":1.0}'),
    (1e7, pa.float64(), "1.0E7", '{"k":1.0E7}'),
    (0.001, pa.float64(), "0.001", '{"k":0.001}'),
    (-0.00012, pa.float64(), "-1.2E-4", '{"k":-1.2E-4}'),
    (9999999.5, pa.float64(), "9999999.5", '{"k":9999999.5}'),
    (date(2026, 8, 7), pa.date32(), "2026-08-07", '{"k":"2026-08-07"}'),
    (AT, pa.timestamp("us"), "2026-08-07 16:25:00.12", '{"k":"2026-08-07T16:25:00.120"}'),
    (AT.replace(tzinfo=UTC), INSTANT, "2026-08-07 16:25:00.12", '{"k":"2026-08-07T16:25:00.120Z"}'),
    (AT.replace(microsecond=0), pa.timestamp("us"), "2026-08-07 16:25:00", '{"k":"2026-08-07T16:25:00.000"}'),
    (b"\x01\xff", pa.binary(), "0x01FF", '{"k":"Af8="}'),
    ('a"b\\é\n', pa.string(), 'a"b\\é\n', '{"k":"a\\"b\\\\é\\n"}'),
]


@pytest.mark.parametrize(("value", "kind", "text", "key"), CASES)
def test_a_value(value: Any, kind: pa.DataType, text: str, key: str) -> None:
    cells = pa.array([value], kind)
    contract = Contract(table="dbo.t", columns=(Column(name="k", type="int", ordinal=1),))
    (shown,) = display.images_as_texts([cells], None, np.array([True]), contract).to_pylist()
    assert (dict(shown), display.keys_as_json({"k": cells})) == ({"k": text}, [key])


def test_an_image_with_gaps_and_none() -> None:
    contract = Contract(
        table="dbo.t",
        columns=tuple(Column(name=name, type="varchar(9)", ordinal=at + 1) for at, name in enumerate("abcd")),
    )
    cells = [pa.array([value, None]) for value in ("", None, None, None)]
    cells = [cell.cast(pa.string()) for cell in cells]
    states = np.array([[0, 1, 2, 0], [0, 0, 0, 0]], np.uint8)
    shown, none = display.images_as_texts(cells, states, np.array([True, False]), contract).to_pylist()
    assert dict(shown) == {"a": "", "b": "(unavailable)", "c": "(not_captured)", "d": "NULL"}
    assert none is None


def test_texts_of_a_source_that_read_as_no_value_are_between_quotes() -> None:
    cells = [pa.array(["NULL", None, "null", "(unavailable)"])]
    shown = display.lists_of_texts(cells, None, np.ones(4, np.bool_)).to_pylist()
    assert shown == [["'NULL'"], ["NULL"], ["null"], ["'(unavailable)'"]]
