"""Change masks of any width, against the rule: the last byte holds ordinals 1 to 8, lowest bit first."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from changeledger import masks

HIGHEST = 1024


@dataclass(frozen=True)
class Example:
    ordinals: tuple[int, ...]
    mask: bytes

    @property
    def set_ones(self) -> list[int]:
        """From the rule, a bit at a time."""
        backwards = self.mask[::-1]
        return [o for o in self.ordinals if backwards[(o - 1) // 8] >> ((o - 1) % 8) & 1]


@st.composite
def examples(draw: st.DrawFn) -> Example:
    highest = draw(st.sampled_from([1, 8, 9, 59, 60, 61, 63, 64, 65, 120, 121, 180, 181, HIGHEST]))
    others = draw(st.sets(st.integers(1, highest), max_size=12))
    width = (highest + 7) // 8
    bits = draw(
        st.one_of(st.just(b"\xff" * width), st.just(bytes(width)), st.binary(min_size=width, max_size=width))
    )
    return Example((*sorted(others - {highest}), highest), bits)


def asked(example: Example) -> list[Column]:
    """The names of the columns set, and whether all are, for this mask and these ordinals."""
    words = masks.words(F.unhex(F.lit(example.mask.hex())), max(example.ordinals))
    ordinals = {f"c{o}": o for o in example.ordinals}
    return [masks.columns(words, ordinals), masks.is_full(words, ordinals)]


@settings(max_examples=2, deadline=None, phases=(Phase.generate,))
@given(drawn=st.lists(examples(), min_size=15, max_size=15))
def test_masks_of_any_width_and_ordinals_with_gaps(spark: SparkSession, drawn: list[Example]) -> None:
    drawn = [*drawn, Example((1, 60), b"\x08" + bytes(6) + b"\x01")]
    columns = [column for example in drawn for column in asked(example)]
    row = spark.range(1).select(*(c.alias(f"a{n}") for n, c in enumerate(columns))).collect()[0]
    for at, example in enumerate(drawn):
        assert row[2 * at] == [f"c{o}" for o in example.set_ones]
        assert row[2 * at + 1] == (example.set_ones == list(example.ordinals))


def test_every_single_bit_of_the_widest_table(spark: SparkSession) -> None:
    """One row for each ordinal of a table of 1024 columns: its bit alone is set."""
    rows = [(o, (1 << (o - 1)).to_bytes(HIGHEST // 8, "big")) for o in range(1, HIGHEST + 1)]
    frame = spark.createDataFrame(rows, "ordinal int, mask binary")
    words = masks.words(F.col("mask"), HIGHEST)
    probes = (1, 8, 9, 60, 61, 64, 65, 1000, HIGHEST)
    found = {
        row[0]: row[1]
        for row in frame.select("ordinal", masks.columns(words, {str(p): p for p in probes})).collect()
    }
    assert {o: names for o, names in found.items() if names} == {p: [str(p)] for p in probes}
    assert len(found) == HIGHEST


@pytest.mark.parametrize(
    ("highest", "width"), [(1, 1), (8, 1), (9, 2), (64, 8), (65, 9), (100, 13), (1024, 128)]
)
def test_width_in_bytes(highest: int, width: int) -> None:
    assert masks.width(highest) == width
