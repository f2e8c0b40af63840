"""Change masks of any width in both orders agree with the rule applied bit by bit.

Big: the last byte holds ordinals 1 to 8, lowest bit first. Little: the first byte does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changeledger.kernels import masks, octets
from changeledger.model.contract import ByteOrder

HIGHEST = 1024
WIDTHS = [1, 8, 9, 59, 60, 61, 63, 64, 65, 120, 121, 180, 181, 999, 1000, HIGHEST]


@dataclass(frozen=True)
class Example:
    ordinals: tuple[int, ...]
    order: ByteOrder
    mask: bytes

    @property
    def bits_set(self) -> list[int]:
        """Ordinals whose bit is set, by the rule. Missing bytes are zero."""
        low_first = self.mask[::-1] if self.order == "big" else self.mask
        return [
            byte * 8 + bit + 1 for byte, value in enumerate(low_first) for bit in range(8) if value >> bit & 1
        ]


@st.composite
def examples(draw: st.DrawFn) -> Example:
    highest = draw(st.sampled_from(WIDTHS))
    others = draw(st.sets(st.integers(1, highest), max_size=12))
    order: ByteOrder = draw(st.sampled_from(["big", "little"]))
    full = (highest + 7) // 8
    # Trimmed, as wide as the table, or with more bytes than this table (or any table) needs.
    size = draw(st.one_of(st.just(full), st.integers(0, full), st.integers(full, full + 200)))
    bits = draw(
        st.one_of(st.just(b"\xff" * size), st.just(bytes(size)), st.binary(min_size=size, max_size=size))
    )
    return Example((*sorted(others - {highest}), highest), order, bits)


@settings(max_examples=300, deadline=None)
@given(example=examples(), others=st.lists(st.one_of(st.none(), st.binary(max_size=20)), max_size=3))
def test_masks_of_any_width_and_ordinals_with_gaps(example: Example, others: list[bytes | None]) -> None:
    """The mask has neighbours in its column, some of them NULL."""
    column = pa.array([*others, example.mask, *others], pa.binary()).slice(len(others), 1 + len(others))
    bits = masks.bits(column, max(example.ordinals), example.order)
    # A contract may name its columns in any order.
    ordinals = example.ordinals[::-1]
    names = [f"c{o}" for o in ordinals]
    known = column.is_valid().to_numpy(zero_copy_only=False)
    columns = masks.columns(bits, ordinals, names, known).to_pylist()
    bits_set = set(example.bits_set)
    assert columns[0] == [f"c{o}" for o in ordinals if o in bits_set]
    assert [row is None for row in columns[1:]] == [mask is None for mask in others]
    assert masks.highest_set(column, example.order)[0] == max(example.bits_set, default=0)
    assert masks.to_hex(column)[0].as_py() == example.mask.hex().upper()
    assert octets.lengths(column)[0] == len(example.mask)


@pytest.mark.parametrize("order", ["big", "little"])
@pytest.mark.parametrize("trimmed", [False, True])
def test_every_single_bit_of_the_widest_table(order: ByteOrder, *, trimmed: bool) -> None:
    """A table of 1024 columns with one row for each ordinal, in which only its bit is set."""

    def single_bit(ordinal: int) -> bytes:
        # Big trims its leading zero bytes, little its trailing ones.
        size = (ordinal + 7) // 8 if trimmed else HIGHEST // 8
        return (1 << (ordinal - 1)).to_bytes(size, order)

    column = pa.array([single_bit(o) for o in range(1, HIGHEST + 1)], pa.binary())
    assert (masks.bits(column, HIGHEST, order) == np.eye(HIGHEST, dtype=np.bool_)).all()
    assert masks.highest_set(column, order).tolist() == list(range(1, HIGHEST + 1))


@pytest.mark.parametrize(
    ("text", "order", "ordinals"),
    [
        # Qlik messages: 0B of ten columns is 1011, ordinals 1, 2 and 4. One byte reads the same in both
        # orders.
        ("0B", "big", [1, 2, 4]),
        ("0B", "little", [1, 2, 4]),
        ("B", "big", [1, 2, 4]),
        ("0000000B", "big", [1, 2, 4]),
        ("00", "big", []),
        # Qlik tables, binary: byte 0 holds bits 0 to 7, byte 1 bits 8 to 15. Here, bit N is ordinal N + 1.
        ("0B01", "little", [1, 2, 4, 9]),
        # Mask 11000: bits 3 and 4 are set. The page says that "ordinal 3" did not change, which is a slip:
        # the rule decides.
        ("18", "little", [4, 5]),
    ],
)
def test_examples_of_the_pages(text: str, order: ByteOrder, ordinals: list[int]) -> None:
    bits = masks.bits(masks.from_texts(pa.array([text])), 10, order)
    assert (np.flatnonzero(bits[0]) + 1).tolist() == ordinals


def test_text_of_masks() -> None:
    texts = ["07", "0x07", "0X07", "7", "0x7", "1FF", "00ff", "", "0x", "zz", "0x0g", "0 7", "\uff17", "-1",
             None]  # fmt: skip
    assert masks.to_hex(masks.from_texts(pa.array(texts))).to_pylist() == [
        "07", "07", "07", "07", "07", "01FF", "00FF", "", "", None, None, None, None, None, None,
    ]  # fmt: skip


@given(st.lists(st.one_of(st.none(), st.text("0123456789abcdefABCDEFxX g", max_size=600)), max_size=8))
def test_hex_is_what_python_takes_for_it(texts: list[str | None]) -> None:
    def read(text: str | None) -> bytes | None:
        digits = text[2:] if text and text[:2] in {"0x", "0X"} else text
        if digits is None or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
            return None
        return bytes.fromhex("0" * (len(digits) % 2) + digits)

    assert masks.from_texts(pa.array(texts, pa.string())).to_pylist() == [read(text) for text in texts]


@pytest.mark.parametrize(
    ("highest", "width"), [(1, 1), (8, 1), (9, 2), (64, 8), (65, 9), (100, 13), (1024, 128)]
)
def test_width_in_bytes(highest: int, width: int) -> None:
    assert masks.width(highest) == width


@pytest.mark.parametrize(
    ("flags", "required", "allowed", "disagrees"),
    [
        ([1, 0], [1, 0], [1, 0], False),
        ([1, 0], [0, 0], [1, 1], False),
        ([0, 0], [1, 0], [1, 1], True),
        ([1, 1], [1, 0], [1, 0], True),
        ([0, 0], [0, 0], [0, 0], False),
    ],
)
def test_a_mask_has_the_bits_that_it_must_have_and_no_others(
    flags: list[int], required: list[int], allowed: list[int], disagrees: bool
) -> None:
    matrices = [np.array([row, row], np.bool_) for row in (flags, required, allowed)]
    disagreeing = masks.disagrees(matrices[0], np.array([True, False]), *matrices[1:])
    assert disagreeing.tolist() == [disagrees, False], "and of no mask at all nothing is known"


def test_an_update_has_the_bits_of_the_columns_in_which_its_images_differ() -> None:
    differing = np.array([[True, False, True, False]])
    compared = np.array([[True, True, False, False]])
    required, allowed = masks.of_images(differing, compared)
    assert required.tolist() == [[True, False, False, False]]
    assert allowed.tolist() == [[True, False, True, True]], "of a gap nothing is known"
