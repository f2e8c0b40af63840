"""Looks rows up by their values, and sorts them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeledger.kernels.order import are_among, by, distinct, is_among, running_max, words

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


def test_more_combinations_than_a_number_has_values() -> None:
    """64 values in each of 11 columns: in 64 bits, 16 more in the first column would be the same number."""
    values = np.arange(64)
    first, others = pa.array(values), [pa.array(values)] * 10
    assert are_among([first, *others], [first, *others]).all()
    assert not are_among([first, *others], [pa.array((values + 16) % 64), *others]).any()


@given(st.lists(st.one_of(st.none(), st.lists(st.sampled_from([0, 1, 255]), max_size=17).map(bytes))))
def test_bytes_are_unsigned_and_a_longer_value_follows_its_beginning(values: list[bytes | None]) -> None:
    ranks = words(pa.array(values, pa.binary()))
    assert by(ranks, len(values)).tolist() == sorted(range(len(values)), key=lambda at: values[at] or b"")


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5).map(bool)), min_size=1))
def test_the_greatest_value_of_a_group_so_far(rows: list[tuple[int, bool]]) -> None:
    expected: list[int] = []
    for at, (value, is_inside) in enumerate(rows):
        expected.append(max(value, expected[-1]) if at and is_inside else value)
    values, is_inside = (np.array(column) for column in zip(*rows, strict=True))
    first = ~is_inside | (np.arange(len(rows)) == 0)
    assert running_max(values, first).tolist() == expected


@pytest.mark.parametrize("numbers", [[], [7], [3, 1, 3, 2**64 - 1, 0, 1]])
def test_each_number_once(numbers: list[int]) -> None:
    ranks = np.array(numbers, np.uint64)
    known = distinct(ranks)
    assert known.tolist() == sorted(set(numbers))
    assert is_among(ranks, known).all()
    assert not is_among(np.array([5], np.uint64), known).any()
