"""Change masks of any width in both orders, against the rule read one bit at a time.

Big: the last byte holds ordinals 1 to 8, lowest bit first. Little: the first byte does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from changeledger import masks
from changeledger.config import ByteOrder

HIGHEST = 1024
WIDTHS = [1, 8, 9, 59, 60, 61, 63, 64, 65, 120, 121, 180, 181, 999, 1000, HIGHEST]


@dataclass(frozen=True)
class Example:
    ordinals: tuple[int, ...]
    order: ByteOrder
    mask: bytes

    @property
    def bits_set(self) -> list[int]:
        """The ordinals whose bit is set, by the rule; bytes that are not there are zero."""
        low_first = self.mask[::-1] if self.order == "big" else self.mask
        return [
            byte * 8 + bit + 1 for byte, value in enumerate(low_first) for bit in range(8) if value >> bit & 1
        ]

    @property
    def of_the_table(self) -> list[int]:
        return [o for o in self.ordinals if o in set(self.bits_set)]


@st.composite
def examples(draw: st.DrawFn) -> Example:
    highest = draw(st.sampled_from(WIDTHS))
    others = draw(st.sets(st.integers(1, highest), max_size=12))
    order: ByteOrder = draw(st.sampled_from(["big", "little"]))
    full = (highest + 7) // 8
    # Trimmed, of the table's own width, or with more bytes than the table needs.
    size = draw(st.one_of(st.just(full), st.integers(0, full), st.integers(full, full + 20)))
    bits = draw(
        st.one_of(st.just(b"\xff" * size), st.just(bytes(size)), st.binary(min_size=size, max_size=size))
    )
    return Example((*sorted(others - {highest}), highest), order, bits)


def asked(example: Example) -> list[Column]:
    """The names of the columns set, whether all are, the highest bit set."""
    mask = F.unhex(F.lit(example.mask.hex()))
    words = masks.words(mask, max(example.ordinals), example.order)
    ordinals = {f"c{o}": o for o in example.ordinals}
    return [
        masks.columns(words, ordinals),
        masks.is_full(words, ordinals),
        masks.highest_set(mask, example.order),
    ]


@settings(max_examples=3, deadline=None, phases=(Phase.generate,))
@given(drawn=st.lists(examples(), min_size=20, max_size=20))
def test_masks_of_any_width_and_ordinals_with_gaps(spark: SparkSession, drawn: list[Example]) -> None:
    drawn = [*drawn, Example((1, 60), "big", b"\x08" + bytes(6) + b"\x01")]
    columns = [column for example in drawn for column in asked(example)]
    row = spark.range(1).select(*(c.alias(f"a{n}") for n, c in enumerate(columns))).collect()[0]
    for at, example in enumerate(drawn):
        found = row[3 * at], row[3 * at + 1], row[3 * at + 2]
        there = example.of_the_table
        assert found == (
            [f"c{o}" for o in there],
            there == list(example.ordinals),
            max(example.bits_set, default=0),
        )


@pytest.mark.parametrize("order", ["big", "little"])
@pytest.mark.parametrize("trimmed", [False, True])
def test_every_single_bit_of_the_widest_table(
    spark: SparkSession, order: ByteOrder, *, trimmed: bool
) -> None:
    """One row for each ordinal of a table of 1024 columns: its bit alone is set."""

    def alone(ordinal: int) -> bytes:
        # Big trims its leading zero bytes, little its trailing ones.
        size = (ordinal + 7) // 8 if trimmed else HIGHEST // 8
        return (1 << (ordinal - 1)).to_bytes(size, order)

    rows = [(o, alone(o)) for o in range(1, HIGHEST + 1)]
    frame = spark.createDataFrame(rows, "ordinal int, mask binary")
    words = masks.words(F.col("mask"), HIGHEST, order)
    names = {str(o): o for o in range(1, HIGHEST + 1)}
    found = frame.select(
        "ordinal", masks.columns(words, names), masks.highest_set(F.col("mask"), order)
    ).collect()
    assert sorted(map(tuple, found)) == [(o, [str(o)], o) for o in range(1, HIGHEST + 1)]


def one(spark: SparkSession, **columns: Column) -> dict[str, Any]:
    return spark.range(1).select(*(c.alias(n) for n, c in columns.items())).collect()[0].asDict()


def test_examples_of_the_pages(spark: SparkSession) -> None:
    ten = {str(o): o for o in range(1, 11)}

    def read(text: str, order: ByteOrder) -> Column:
        return masks.columns(masks.words(masks.from_text(F.lit(text)), 10, order), ten)

    found = one(
        spark,
        # Qlik messages: 0B of ten columns is 1011, ordinals 1, 2 and 4. One byte is the same in both orders.
        message=read("0B", "big"),
        message_little=read("0B", "little"),
        one_digit=read("B", "big"),
        leading_zeros=read("0000000B", "big"),
        nothing=read("00", "big"),
        # Qlik tables, binary: byte 0 holds bits 0 to 7, byte 1 bits 8 to 15; bit N is ordinal N + 1 here.
        table=read("0B01", "little"),
        # Mask 11000: bits 3 and 4 are set. The page says of "ordinal 3" that it did not change, which
        # is a slip: the rule counts.
        slip=read("18", "little"),
    )
    four, slip = ["1", "2", "4"], ["4", "5"]
    assert found == {
        "message": four, "message_little": four, "one_digit": four, "leading_zeros": four, "nothing": [],
        "table": [*four, "9"], "slip": slip,
    }  # fmt: skip


def test_text_of_masks(spark: SparkSession) -> None:
    texts = [
        "07",
        "0x07",
        "0X07",
        "7",
        "0x7",
        "1FF",
        "00ff",
        "",
        "0x",
        "zz",
        "0x0g",
        "0 7",
        "\uff17",
        "-1",
        None,
    ]
    frame = spark.createDataFrame([(n, t) for n, t in enumerate(texts)], "n int, text string")
    mask = masks.from_text(F.col("text"))
    found = sorted(frame.select("n", masks.to_hex(mask)).collect())
    assert [row[1] for row in found] == [
        "07", "07", "07", "07", "07", "01FF", "00FF", "", "", None, None, None, None, None, None,
    ]  # fmt: skip


def test_of_no_mask_nothing_is_known(spark: SparkSession) -> None:
    words = masks.words(F.lit(None).cast("binary"), 9)
    found = one(
        spark,
        words=words,
        columns=masks.columns(words, {"a": 1}),
        full=masks.is_full(words, {"a": 1}),
        highest=masks.highest_set(F.lit(None).cast("binary")),
    )
    assert set(found.values()) == {None}


def test_names_that_are_sql(spark: SparkSession) -> None:
    names = [
        "it's",
        "back\\slash",
        "words",
        "', 'x",
        "${env:HOME}",
        "${spark.app.name}",
        "\\u0041",
        "ü\U0001f600",
    ]
    words = masks.words(F.unhex(F.lit("FF")), 8)
    found = one(spark, columns=masks.columns(words, {n: at + 1 for at, n in enumerate(names)}))
    assert found["columns"] == names


@pytest.mark.parametrize(
    ("highest", "width"), [(1, 1), (8, 1), (9, 2), (64, 8), (65, 9), (100, 13), (1024, 128)]
)
def test_width_in_bytes(highest: int, width: int) -> None:
    assert masks.width(highest) == width


def test_words_of_known_sets() -> None:
    assert masks.bits_of([1, 3]) == [0b101]
    assert masks.bits_of([60, 61], 130) == [1 << 59, 1, 0]
    assert masks.bits_of([], 8) == [0]
