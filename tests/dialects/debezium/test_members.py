"""Members of an image in any order: each has a value, NULL or a placeholder, or is absent."""

from __future__ import annotations

from base64 import b64encode
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeledger.config.sources import DebeziumSource
from changeledger.dialects.debezium.decode import decode
from changeledger.dialects.debezium.plan import TablePlan
from changeledger.dialects.debezium.values import cell_of
from changeledger.model.contract import Column, Contract
from tests.dialects.debezium.decoding import feed
from tests.dialects.debezium.test_values import inserts
from tests.dialects.debezium.written import shortest

GONE, GONE_IN_BASE64 = "<gone>", "PGdvbmU+"
FEED = feed(**{"unavailable.value.placeholder": GONE})
CONTRACT = Contract(
    table="dbo.t",
    columns=(
        Column(name="n", type="int", ordinal=1, nullable=False, key_position=2),
        Column(name="k.1", type="nvarchar(50)", ordinal=2, nullable=False, key_position=1),
        Column(name="id", type="int", ordinal=3),
        Column(name="a.b", type="nvarchar(50)", ordinal=4),
        Column(name="select", type="nvarchar(50)", ordinal=5),
        Column(name="doc", type="varbinary(max)", ordinal=6),
    ),
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "id": st.integers(-(2**31), 2**31 - 1),
    "a.b": st.text("abcäß漢 \0", max_size=4),
    "select": st.text("abc", max_size=4),
    "doc": st.binary(max_size=4),
}
TEXTS = {"a.b", "select"}


@st.composite
def members(draw: st.DrawFn) -> dict[str, Any]:
    """Some of the columns, in any order."""
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), unique=True))
    held = st.sampled_from([None, GONE, GONE_IN_BASE64])
    cells = {name: draw(st.one_of(held, VALUES[name])) for name in names}
    return {name: cells[name] for name in draw(st.permutations(names))} if names else {}


def rows(images: list[dict[str, Any]]) -> list[dict[str, Any]]:
    plan = TablePlan(FEED, CONTRACT, CONTRACT, "window", database="d")
    sent = [
        {
            name: b64encode(value).decode() if isinstance(value, bytes) else value
            for name, value in image.items()
        }
        for image in images
    ]
    results: list[dict[str, Any]] = decode(inserts(sent), plan).to_pylist()
    return results


def is_held(name: str, value: Any) -> bool:
    # In a text column, the base64 placeholder is an ordinary value.
    return value == GONE or (value == GONE_IN_BASE64 and name not in TEXTS)


@given(st.lists(members(), min_size=1, max_size=60))
def test_members_are_bound_by_name(drawn: list[dict[str, Any]]) -> None:
    keyed = [{"k.1": "x", **image, "n": at} for at, image in enumerate(drawn)]
    results = rows(keyed)
    assert [row["disposition"] for row in results] == ["change"] * len(drawn)
    for row, sent in zip(results, keyed, strict=True):
        gaps = {name: "not_captured" for name in VALUES if name not in sent}
        gaps |= {name: "unavailable" for name, value in sent.items() if is_held(name, value)}
        assert dict(row["after_unknown_columns"] or []) == gaps
        # Unknown columns have no value. All other cells keep theirs.
        assert row["after"] == {name: None if name in gaps else sent[name] for name in CONTRACT.names}
        assert list(row["key"].items()) == [("k.1", "x"), ("n", sent["n"])]


@pytest.mark.parametrize("key", [{"n": None, "k.1": "x"}, {"n": 1, "k.1": None}, {"n": None, "k.1": None}])
def test_a_key_is_whole(key: dict[str, Any]) -> None:
    assert [row["reason"] for row in rows([key])] == ["null_key"]


def test_members_without_a_column_are_named() -> None:
    whole = {"n": 1, "k.1": "x", "id": 1, "a.b": "", "select": "", "doc": b""}
    results = rows([whole, dict(reversed(whole.items())), {**whole, "x": "1", "y": None}, {**whole, "ID": 1}])
    assert [row["detail"] for row in results] == [
        None,
        None,
        "dbo.t has no column x, y",
        "columns of dbo.t whose names differ in case only: id, ID. The lake cannot distinguish them: leave "
        "one out of the capture, or rename it in the source",
    ]


def test_names_that_could_be_misread_are_shown_as_json() -> None:
    whole = {"n": 1, "k.1": "x", "id": 1, "a.b": "", "select": "", "doc": b""}
    (row,) = rows([{**whole, "": "1", "a\n2026-01-01 INFO done": "2", "a, b": "3", "plain": "4"}])
    assert row["detail"] == 'dbo.t has no column "", "a\\n2026-01-01 INFO done", "a, b", plain'


def test_the_id_of_a_change_is_of_what_it_says() -> None:
    key = {"n": 1, "k.1": "x"}
    said: list[dict[str, Any]] = [
        {"a.b": "x", "select": None, "doc": None}, {"a.b": None, "select": "x", "doc": None},
        {"a.b": "x", "select": None, "doc": b""}, {"a.b": "x", "select": "", "doc": None},
        {"a.b": "x", "select": None, "doc": None, "id": 1},
    ]  # fmt: skip
    ids = [row["change_id"] for image in said for row in rows([{"id": None, **image, **key}])]
    assert len(set(ids)) == len(said)
    assert all(len(change_id) == 32 for change_id in ids)


TYPES = [(1, 0), (5, 2), (16, 4), (18, 3), (18, 18), (19, 4), (38, 0), (38, 10), (38, 19), (38, 38)]
PAYLOADS = st.one_of(
    # Up to 8 bytes may repeat the sign. Longer ones are as short as possible.
    st.binary(min_size=1, max_size=8),
    st.integers(-(2**135), 2**135 - 1).map(shortest),
    st.integers(-(10**38), 10**38).map(shortest),
    st.integers(1, 127)
    .flatmap(lambda power: st.sampled_from([2**power, 2**power - 1, -(2**power), 1 - 2**power]))
    .map(shortest),
)


@pytest.mark.parametrize(("precision", "scale"), TYPES)
@given(payloads=st.lists(PAYLOADS, min_size=1, max_size=100))
def test_decimals_are_big_endian_twos_complement(precision: int, scale: int, payloads: list[bytes]) -> None:
    """Converting a column of payloads gives the same values as reading each payload."""
    assert isinstance(FEED.source, DebeziumSource)
    cell = cell_of(Column(name="d", type=f"decimal({precision},{scale})", ordinal=1), FEED.source)
    texts = [b64encode(payload).decode() for payload in payloads]
    expected = []
    for payload in payloads:
        unscaled = int.from_bytes(payload, "big", signed=True)
        # No arithmetic: the default context rounds to 28 digits.
        digits = (int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale)
        expected.append(Decimal(digits) if abs(unscaled) < 10**precision else None)
    assert [cell.read(text) for text in texts] == expected
    cells = cell.convert(texts)
    assert cells.values.to_pylist() == expected
    unfit = [number is None for number in expected]
    assert (cells.unfit.tolist() if cells.unfit is not None else [False] * len(unfit)) == unfit
