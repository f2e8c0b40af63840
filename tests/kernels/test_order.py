"""Looks rows up by their values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from changeledger.kernels.order import are_among, distinct, is_among

AMOUNT = pa.decimal128(38, 2)


@pytest.mark.parametrize(
    ("kind", "values", "among", "expected"),
    [
        (pa.int64(), [1, 2**53 + 1, -1], [2**53 + 1, 2**53], [False, True, False]),
        (pa.int64(), [1, None, 0], [None], [False, True, False]),
        (pa.float64(), [0.0, -0.0, 1.5, None], [-0.0], [True, True, False, False]),
        (pa.float64(), [0.0, -0.0], [0.0], [True, True]),
        (AMOUNT, [Decimal("1.10"), Decimal(10**30), None], [Decimal("1.1"), Decimal(10**30 + 1)], [1, 0, 0]),
        (pa.string(), ["", "a", "A", None, "ä"], ["a", ""], [True, True, False, False, False]),
        (pa.string(), ["a"], [], [False]),
        (pa.binary(), [b"", b"\x00", None], [b"\x00", None], [False, True, True]),
        (pa.int32(), [], [1], []),
    ],
)
def test_values_are_compared_exactly(
    kind: pa.DataType, values: list[Any], among: list[Any], expected: list[bool]
) -> None:
    assert are_among([pa.array(values, kind)], [pa.array(among, kind)]).tolist() == expected


def test_all_columns_of_one_row_count() -> None:
    columns = [pa.array([1, 1, 2, None, None]), pa.array(["a", "b", "a", "a", None])]
    among = [pa.array([1, 2, None]), pa.array(["a", "b", None])]
    assert are_among(columns, among).tolist() == [True, False, False, False, True]


@pytest.mark.parametrize("numbers", [[], [7], [3, 1, 3, 2**64 - 1, 0, 1]])
def test_each_number_once(numbers: list[int]) -> None:
    ranks = np.array(numbers, np.uint64)
    known = distinct(ranks)
    assert known.tolist() == sorted(set(numbers))
    assert is_among(ranks, known).all()
    assert not is_among(np.array([5], np.uint64), known).any()
