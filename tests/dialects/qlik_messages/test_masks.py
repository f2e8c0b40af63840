"""Masks of any width, in both orders, name the columns whose bits are set."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeledger.dialects.qlik_messages import masks
from changeledger.model.contract import ByteOrder

ORDINALS = st.sets(st.integers(1, 1100), max_size=40)


@given(sets=st.lists(ORDINALS, min_size=1, max_size=6), columns=st.sets(st.integers(1, 1100), min_size=1))
@pytest.mark.parametrize("order", ["big", "little"])
def test_the_bits_that_are_set_are_the_columns(
    order: ByteOrder, sets: list[set[int]], columns: set[int]
) -> None:
    known = sorted(columns)
    numbers = [sum(1 << (ordinal - 1) for ordinal in ordinals) for ordinals in sets]
    texts = [number.to_bytes(138, order).hex() for number in numbers]
    parsed = masks.read(pa.array(texts, pa.string()), known, order)
    assert parsed.known.all()
    assert parsed.columns.tolist() == [[ordinal in ordinals for ordinal in known] for ordinals in sets]
    assert parsed.beyond.tolist() == [max(ordinals, default=0) > known[-1] for ordinals in sets]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", b""), ("B", b"\x0b"), ("0B", b"\x0b"), ("0x0B", b"\x0b"), ("0X00b", b"\x00\x0b"), ("0 B", None),
     ("0G", None), ("x0B", None), ("٣", None), ("0x", b"")],
)  # fmt: skip
def test_hex_text(text: str, expected: bytes | None) -> None:
    assert masks.parse(text) == expected


def test_null_is_no_mask() -> None:
    parsed = masks.read(pa.array([None, "03", "zz"], pa.string()), [1, 2, 3])
    assert parsed.known.tolist() == [False, True, False]
    assert parsed.columns.tolist() == [[False] * 3, [True, True, False], [False] * 3]
