"""Reads log sequence numbers one by one and in columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeledger.kernels import lsn

LSNS = st.binary(min_size=lsn.WIDTH, max_size=lsn.WIDTH).filter(any)
FORMS = {
    "bare": lambda digits: digits,
    "grouped": lambda digits: f"{digits[:8]}:{digits[8:16]}:{digits[16:]}",
    "prefixed": lambda digits: f"0x{digits}",
    "upper": lambda digits: f"{digits[:8]}:{digits[8:16]}:{digits[16:]}".upper(),
    "bare upper": lambda digits: digits.upper(),
    "prefixed upper": lambda digits: f"0X{digits.upper()}",
}


def written(value: bytes, form: str) -> str:
    return FORMS[form](value.hex())


@given(LSNS, st.sampled_from(sorted(FORMS)))
def test_every_form_is_read(value: bytes, form: str) -> None:
    assert lsn.parse(written(value, form)) == value


@pytest.mark.parametrize(
    "text",
    [
        "", "80", "NULL", "0000002a-000003b0-0005", "0000002a:000003b0:000005", "0000002a:000003b0:00",
        "000zz02a:000003b0:0005", "0000002a000:03b0:0005", "0000002a000003b00005 ",
        "\u0660000002a000003b00005",
        "0000002a:00:003b0:005", "00 00 02a000003b00005", "0x", "nothing", "0000:027:00000758:0003",
        "0000002a:000003b0:00:5", "::::::::000003b0::0005", "0000002a000003b000",
        "0x0000002a000003b000050", "0000002A000003B0000500",
        "00000000:00000000:0000", "0x00000000000000000000",
    ],
)  # fmt: skip
def test_what_is_none_is_not_read(text: str) -> None:
    assert lsn.parse(text) is None


@pytest.mark.parametrize(
    ("text", "absent"),
    [
        ("NULL", True), ("null", True), (None, True), ("", False), ("nothing", False), ("80", False),
        ("00000000:00000000:0000", True), ("0000", False),
    ],
)  # fmt: skip
def test_what_is_absent_is_not_broken(text: str | None, *, absent: bool) -> None:
    assert lsn.is_absent(text) is absent


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.text(),
            st.just("00000000:00000000:0000"),
            st.tuples(LSNS, st.sampled_from(sorted(FORMS))).map(lambda drawn: written(*drawn)),
        )
    )
)
def test_columns_are_read_as_each_alone(texts: list[str | None]) -> None:
    parsed = lsn.parse_all(pa.array(texts, pa.string()))
    assert parsed.array().to_pylist() == [None if text is None else lsn.parse(text) for text in texts]
    sliced = lsn.parse_all(pa.array(["x", *texts], pa.string()).slice(1))
    assert sliced.array().equals(parsed.array())


def test_zero_bytes_stand_for_none() -> None:
    lsns = lsn.of_bytes(pa.array([bytes(lsn.WIDTH), bytes([*bytes(9), 1]), None], pa.binary()))
    assert lsns.known.tolist() == [False, True, False]


@given(st.lists(LSNS, min_size=1))
def test_their_text_is_twenty_digits(values: list[bytes]) -> None:
    digits = np.frombuffer(b"".join(values), np.uint8).reshape(-1, lsn.WIDTH)
    text = lsn.to_text(lsn.Lsns(digits, np.ones(len(values), np.bool_)))
    assert text.to_pylist() == [value.hex().upper() for value in values]


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1))
def test_positions_of_64_bits_order_as_numbers(values: list[int]) -> None:
    positions = lsn.of_integers(pa.array(values, pa.int64())).array().to_pylist()
    assert positions == [value.to_bytes(lsn.WIDTH, "big") for value in values]
