"""Hashes are XXH64, chained as Spark chains them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeledger.kernels import fingerprints
from changeledger.kernels.fingerprints import Hashes


def seeded(seed: int, rows: int = 1) -> Hashes:
    return np.full((2, rows), seed, np.uint64)


# Published examples of the xxHash project, with seed 0.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0xEF46DB3751D8E999),
        ("a", 0xD24EC4F1A98C6E5B),
        ("abc", 0x44BC2CF5AD770999),
        ("Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_hashes_are_xxh64(text: str, expected: int) -> None:
    hashes = fingerprints.of_column(seeded(0), pa.array([text]))
    assert hashes.tolist() == [[expected], [expected]]


def test_values_are_chained_as_spark_chains_them() -> None:
    """Spark's documentation of the function: `xxhash64('Spark', array(123), 2)` is 5602566077635097486."""
    hashes = fingerprints.of_column(seeded(42), pa.array(["Spark"]))
    for number in (123, 2):
        hashes = fingerprints.of_ints(hashes, np.array([number]))
    assert hashes[0].view(np.int64).tolist() == [5602566077635097486]


def test_what_is_null_leaves_the_hash_as_it_was() -> None:
    before = seeded(42, 2)
    hashes = fingerprints.of_column(before, pa.array([None, "x"]), b"label")
    assert hashes[0, 0] == 42
    assert hashes[0, 1] != 42


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=20))
def test_neighbours_have_no_part_in_a_hash(values: list[bytes]) -> None:
    """A row's hash is the same in a whole column, in a slice, and as a constant."""
    together = fingerprints.of_column(seeded(7, len(values)), pa.array(values))
    for at, value in enumerate(values):
        single = fingerprints.of_constant(seeded(7), value)
        assert single[0, 0] == together[0, at]
        part = fingerprints.of_column(seeded(7), pa.array(values).slice(at, 1))
        assert part[0, 0] == together[0, at]


@given(
    st.lists(
        st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**14), max_value=10**14)
    )
)
def test_decimals_are_the_fewest_bytes_of_their_number(values: list) -> None:
    column = pa.array(values, pa.decimal128(18, 3))
    hashes = fingerprints.of_column(seeded(42, len(values)), column)
    for at, value in enumerate(values):
        number = int(value.scaleb(3))
        length = (number if number >= 0 else ~number).bit_length() // 8 + 1
        data = number.to_bytes(length, "big", signed=True)
        assert fingerprints.of_constant(seeded(42), data)[0, 0] == hashes[0, at]


@pytest.mark.parametrize("size", [31, 32, 63, 64, 1000, 5000])
def test_few_long_values_are_hashed_as_many(size: int) -> None:
    values = [bytes([at]) * (size + at % 2 * 40) for at in range(20)]
    together = fingerprints.of_column(seeded(7, len(values)), pa.array(values))
    for at, value in enumerate(values):
        assert fingerprints.of_column(seeded(7), pa.array([value]))[0, 0] == together[0, at]


@pytest.mark.parametrize("size", [0, 1, 7, 8, 10, 12, 30, 31, 32, 47, 64, 65])
def test_values_of_one_width_are_hashed_as_any_others(size: int) -> None:
    """Such as ids, LSNs and positions. `of_constant` is another way to the same number."""
    values = [bytes((at * 7 + byte) % 256 for byte in range(size)) for at in range(20)]
    together = fingerprints.of_column(seeded(7, len(values)), pa.array([b"first", *values]).slice(1))
    for at, value in enumerate(values):
        assert fingerprints.of_constant(seeded(7), value)[0, 0] == together[0, at]


def test_minus_zero_is_zero() -> None:
    hashes = fingerprints.of_column(seeded(42, 2), pa.array([0.0, -0.0]))
    assert hashes[0, 0] == hashes[0, 1]
