"""Positions and commit times of rows of Qlik's change tables."""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeledger.config.feed import Feed
from changeledger.config.tables import TableConfig
from changeledger.dialects.qlik_tables.columns import writer_schema_of
from changeledger.dialects.qlik_tables.header import header_names, mask_rules, record
from changeledger.dialects.qlik_tables.positions import Sequences, times
from changeledger.dialects.tables.interface import Hidden
from changeledger.kernels.arrow import INSTANT
from changeledger.model.contract import Column, Contract

FEED = Feed.model_validate(
    {
        "feed": "ct", "dialect": "qlik_tables", "database": "shop", "connection": "shop", "source": {},
        "tables": [{"table": "dbo.t"}],
    }
)  # fmt: skip
SEQ = "20260807162500880000000000000000001"


def places(**header: list[str | None]) -> list[Any]:
    size = len(next(iter(header.values())))
    columns = {f"Header__{name}": pa.array(texts, pa.string()) for name, texts in header.items()}
    columns |= {"id": pa.array(range(size)), "Größe": pa.array(['"x"'] * size)}
    return [
        position["row"]
        for position in record(pa.RecordBatch.from_pydict(columns), "t__ct", FEED, Hidden()).to_pylist()
    ]


def test_a_row_stands_at_its_change_seq_and_letter() -> None:
    positions = places(
        change_seq=[SEQ, f" {SEQ} ", SEQ, SEQ, "abc"],
        change_oper=["i", " U", None, "T", None],
        operation=["INSERT", "UPDATE", "beforeimage", None, "what"],
    )
    # The letter T is undocumented, so it names no operation.
    assert [position.decode() for position in positions] == [
        f"{SEQ}I",
        f"{SEQ}U",
        f"{SEQ}B",
        f"{SEQ}?",
        "abc?",
    ]


def test_a_row_without_a_change_seq_is_known_by_its_content() -> None:
    positions = places(change_seq=[None, "", SEQ], change_oper=[None, "I", "I"])
    contents = [
        '{"id":0,"Größe":"\\"x\\""}',
        '{"Header__change_seq":"","Header__change_oper":"I","id":1,"Größe":"\\"x\\""}',
    ]
    assert [position.decode() for position in positions[:2]] == [
        sha256(content.encode()).hexdigest() for content in contents
    ]


def loaded(hidden: Hidden, **cells: Any) -> str:
    """Returns the position of one row of a full load."""
    kinds = {"id": pa.int64()}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in ("header__change_seq", *cells)])
    read = pa.RecordBatch.from_pylist([cells], schema)
    (position,) = record(read, "t__ct", FEED, hidden).to_pylist()
    return str(position["row"].decode())


def test_no_place_tells_what_is_not_published() -> None:
    """A row's position is published, so it must not reveal hidden cells.

    Whoever has all other cells could otherwise find the hidden one by trying values.
    """
    row = {"id": 7, "Note": "a diagnosis", "email": "ann@example.com"}
    left_out = Hidden(left_out=frozenset({"note"}))
    assert loaded(left_out, **row) == sha256(b'{"id":7,"email":"ann@example.com"}').hexdigest()
    hashed = Hidden(frozenset({"note"}), frozenset({"email"}), "of the people who run it")
    keyed = hmac.digest(b"of the people who run it", b'{"email":"ann@example.com"}', "sha256").hex()
    assert loaded(hashed, **row) == sha256(f'{{"id":7,"email":"{keyed}"}}'.encode()).hexdigest()
    assert "people" not in repr(hashed)


def test_a_rule_for_a_column_to_come_moves_no_row() -> None:
    """A rule for a column that does not exist yet leaves positions as they are.

    Each run reads a full load again, and rows at other positions would be new records.
    """
    rules = Hidden(frozenset({"note"}), frozenset({"email"}), "of the people who run it")
    assert loaded(rules, id=7, email=None) == loaded(rules, id=7) == loaded(Hidden(), id=7)


@given(st.integers(0, 10**19 - 1), st.datetimes())
def test_a_change_seq_has_a_time_and_a_number(number: int, moment: Any) -> None:
    text = f"{moment:%Y}".rjust(4, "0") + f"{moment:%m%d%H%M%S}{moment.microsecond // 10_000:02}{number:019}"
    sequences = Sequences.of(pa.array([None, text, text[:-1], text + "\n"]))
    assert sequences.known.tolist() == [False, True, False, False]
    assert sequences.ordinal().to_pylist() == [None, number if number < 2**63 else None, None, None]
    micros, known = sequences.micros()
    assert known.tolist() == [False, True, False, False]
    reported = pa.array(micros, pa.int64()).view(pa.timestamp("us"))[1].as_py()
    assert reported == moment.replace(microsecond=moment.microsecond // 10_000 * 10_000)


@pytest.mark.parametrize(
    "time", ["2026023016250088", "2026130716250088", "2026080724250088", "0000080716250088"]
)
def test_a_change_seq_without_a_time_has_none(time: str) -> None:
    _, known = Sequences.of(pa.array([f"{time}{1:019}"])).micros()
    assert known.tolist() == [False]


def test_the_timestamp_counts_and_1970_is_none() -> None:
    sequences = Sequences.of(pa.array([SEQ, SEQ, SEQ, None, None]))
    stamps = pa.array([31_536_000_000_000, 0, None, None, None], pa.int64()).view(INSTANT)
    row_times = times(stamps, sequences, is_load=pa.array([0, 0, 0, 1, 0]).to_numpy().astype(bool))
    assert [moment and f"{moment:%Y-%m-%d %H:%M:%S.%f}" for moment in row_times.committed_at.to_pylist()] == [
        "1971-01-01 00:00:00.000000", "2026-08-07 16:25:00.880000", "2026-08-07 16:25:00.880000",
        "1970-01-01 00:00:00.000000", None,
    ]  # fmt: skip
    assert row_times.is_suspect.tolist() == [False, True, True, False, True]


def test_the_header_is_what_comes_before_the_first_column() -> None:
    columns = (
        Column(name="b", type="int", ordinal=9),
        Column(name="a", type="int", ordinal=8, key_position=1),
    )
    raw = pa.schema([("header__change_mask", pa.string())])
    rules = mask_rules(raw, FEED, Contract(table="dbo.t", columns=columns))
    assert (rules.delete_sets, rules.header_ordinals) == ("key", tuple(range(1, 8)))


@pytest.mark.parametrize(
    ("name", "kind", "order"),
    [
        ("HEADER__change_mask", pa.binary(), "little"),
        ("header__change_mask::binary", pa.binary(), "little"),
        ("header__change_mask", pa.string(), "big"),
        ("photo", pa.binary(), "big"),
    ],
)
def test_masks_in_bytes_begin_with_the_lowest_one(name: str, kind: pa.DataType, order: str) -> None:
    rules = mask_rules(pa.schema([(name, kind)]), FEED, Contract(table="dbo.t", columns=()))
    assert rules.unproved == order


HEADER = ["header__change_seq", "HEADER__OPERATION"]
_SHORT = ["change_seq", "operation", "transaction_id"]


@pytest.mark.parametrize(
    ("names", "prefix", "stated", "header"),
    [
        ([*HEADER, "id", "qty"], "header__", (), HEADER),
        # An undocumented header column before the source's columns shifts their bits.
        ([*HEADER, "header__new", "id"], "header__", (), [*HEADER, "header__new"]),
        # Qlik's columns come first, so a later one belongs to the source. The feed may state columns as the
        # source's.
        ([*HEADER, "id", "header__flag"], "header__", (), HEADER),
        ([*HEADER, "Header__Flag", "id"], "header__", ("header__flag", "id"), HEADER),
        ([*HEADER, "Header__Flag", "header__x", "id"], "header__", ("header__flag", "id"), HEADER),
        # Rows of exports may have their members in any order.
        (["id", *HEADER], "header__", (), HEADER),
        (["change_seq", "operation", "id", "changed"], "", (), ["change_seq", "operation"]),
        (["change_seq", "id", "header__change_seq"], "", (), ["change_seq"]),
        # Without a prefix: Qlik need not store this column, so it may be a column of the source.
        (["change_seq", "change_oper", "id", "timestamp"], "", (), ["change_seq", "change_oper"]),
        (["change_seq", "change_oper", "id", "transaction_id"], "", (), ["change_seq", "change_oper"]),
        ([*_SHORT, "id"], "", (), _SHORT),
        (
            ["change_seq", "change_oper", "timestamp", "id", "partition_name"],
            "",
            (),
            ["change_seq", "change_oper", "timestamp", "partition_name"],
        ),
        (
            ["change_seq", "change_oper", "Timestamp", "id"],
            "",
            ("timestamp", "id"),
            ["change_seq", "change_oper"],
        ),
    ],
)
def test_a_column_of_the_source_may_be_named_as_the_headers_are(
    names: list[str], prefix: str, stated: tuple[str, ...], header: list[str]
) -> None:
    assert header_names(names, prefix, stated) == {name.lower() for name in header}


def columns_of_source(names: list[str], prefix: str, key: str) -> tuple[Column, ...]:
    described = [{"column_name": name, "data_type": "int"} for name in names]
    config = TableConfig.model_validate({"table": "dbo.t", "key": [key]})
    return writer_schema_of(config, header_names(names, prefix, [key]), described).columns


@pytest.mark.parametrize(("prefix", "key"), [("header__", "header__no"), ("", "operation")])
def test_the_key_is_of_the_source(prefix: str, key: str) -> None:
    names = [f"{prefix}change_seq", f"{prefix}change_oper", key, "qty"]
    columns = columns_of_source(names, prefix, key)
    assert [(c.name, c.ordinal, c.key_position) for c in columns] == [(key, 3, 1), ("qty", 4, 0)]


def test_a_column_behind_the_header_is_the_sources_and_has_its_bit() -> None:
    names = [*HEADER, "id", "header__flag", "qty"]
    columns = columns_of_source(names, "header__", "id")
    assert [(c.name, c.ordinal) for c in columns] == [("id", 3), ("header__flag", 4), ("qty", 5)]
