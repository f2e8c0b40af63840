"""Cells in a connector's forms read as the source's values, as a column the same as one by one."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime, time, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changeledger.config.sources import DebeziumSource
from changeledger.dialects.debezium.decode import decode
from changeledger.dialects.debezium.plan import TablePlan
from changeledger.dialects.debezium.values import cell_of
from changeledger.model.contract import Column, Contract
from tests.dialects.debezium.decoding import batch, event, feed, one_by_one
from tests.dialects.debezium.written import unscaled

TYPES = (
    "bit", "tinyint", "smallint", "int", "bigint", "real", "float", "decimal(18,4)", "decimal(38,10)",
    "money", "date", "time(0)", "time(3)", "time(7)", "datetime", "smalldatetime", "datetime2(3)",
    "datetime2(6)", "datetime2(7)", "datetimeoffset(7)", "uniqueidentifier", "char(5)", "nchar(5)",
    "nvarchar(50)", "nvarchar(max)", "varbinary(max)", "xml",
)  # fmt: skip
CONTRACT = Contract(
    table="dbo.t",
    columns=(
        Column(name="id", type="int", ordinal=1, key_position=1, nullable=False),
        *(Column(name=f"c {at}", type=kind, ordinal=at + 2) for at, kind in enumerate(TYPES)),
    ),
)
SOURCES = [
    {},
    {"decimal.handling.mode": "string", "binary.handling.mode": "hex"},
    {"time.precision.mode": "connect"},
    {"time.precision.mode": "microseconds", "decimal.handling.mode": "double"},
    {"time.precision.mode": "nanoseconds", "binary.handling.mode": "base64-url-safe"},
    {"time.precision.mode": "adaptive_time_microseconds"},
    {"time.precision.mode": "isostring"},
    {"time.precision.mode": "structured"},
]
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-10, 10**6),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=12),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str),
    st.binary(max_size=18).map(lambda value: b64encode(value).decode()),
    st.datetimes().map(lambda moment: moment.isoformat() + "Z"),
    st.datetimes().map(lambda moment: f"{moment}+01:00"),
    st.dates().map(str),
    st.uuids().map(str),
    st.sampled_from(["__debezium_unavailable_value", "", "null", "NULL"]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
ABSENT = object()
# Each example has up to fifty values.
SOME = settings(max_examples=12, deadline=None)
CELLS = st.one_of(*([ODD] * 4), st.just(ABSENT))


def many(strategy: Any) -> Any:
    return st.lists(strategy, min_size=1, max_size=50)


def plan(**source: Any) -> TablePlan:
    return TablePlan(feed(**source), CONTRACT, CONTRACT, "window", database="d")


def message(row: dict[str, Any]) -> bytes:
    return json.dumps(event("c", None, row)).encode()


def inserts(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return batch(map(message, rows))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(TYPES) - 1), CELLS), min_size=1, max_size=60),
    st.sampled_from(SOURCES),
)
def test_columns_are_read_as_single_cells(cells: list[tuple[int, Any]], source: dict[str, Any]) -> None:
    rows = [{"id": at} for at in range(len(cells))]
    for row, (at, cell) in zip(rows, cells, strict=True):
        row |= {f"c {number}": None for number in range(len(TYPES))}
        row[f"c {at}"] = cell
        if cell is ABSENT:
            del row[f"c {at}"]
    raw, how = inserts(rows), plan(**source)
    decoded = decode(raw, how)
    decoded.validate(full=True)
    assert decoded.to_pylist() == one_by_one(raw, how).to_pylist()


CONNECT = {"time.precision.mode": "connect"}
MICROS = {"time.precision.mode": "microseconds"}
NANOS = {"time.precision.mode": "nanoseconds"}


def after(kind: str, cells: list[Any], source: Mapping[str, Any] | None = None) -> list[Any]:
    """Decodes cells of one column and returns their values."""
    name = f"c {TYPES.index(kind)}"
    rows = decode(
        inserts([{"id": at, name: cell} for at, cell in enumerate(cells)]), plan(**(source or {}))
    ).to_pylist()
    assert {row["disposition"] for row in rows} == {"change"}, [row["detail"] for row in rows]
    return [row["after"][name] for row in rows]


def scaled(number: int, places: int) -> Decimal:
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -places))


@SOME
@given(many(st.integers(-(10**18) + 1, 10**18 - 1)), many(st.integers(-(10**38) + 1, 10**38 - 1)))
def test_a_decimal_is_its_bytes(narrow: list[int], wide: list[int]) -> None:
    assert after("decimal(18,4)", list(map(unscaled, narrow))) == [scaled(number, 4) for number in narrow]
    assert after("decimal(38,10)", list(map(unscaled, wide))) == [scaled(number, 10) for number in wide]


@SOME
@given(many(st.datetimes()))
def test_a_timestamp_counts_in_the_unit_of_its_precision(moments: list[datetime]) -> None:
    since = [moment - datetime(1970, 1, 1) for moment in moments]
    micros = [delta // timedelta(microseconds=1) for delta in since]
    millis = [count // 1000 for count in micros]
    in_millis = [moment.replace(microsecond=moment.microsecond // 1000 * 1000) for moment in moments]
    assert after("datetime2(6)", micros) == moments
    assert after("datetime2(3)", millis) == in_millis
    assert after("datetime2(6)", millis, CONNECT) == in_millis
    assert after("date", [delta.days for delta in since]) == [moment.date() for moment in moments]
    texts = [f"{moment.isoformat(' ', 'microseconds')}0" for moment in in_millis]
    assert after("datetime2(7)", millis, CONNECT) == texts
    assert after("datetime2(6)", micros, MICROS) == moments
    assert after("datetime2(3)", [count * 1000 for count in millis], MICROS) == in_millis
    whole = [f"{moment.isoformat(' ', 'microseconds')}0" for moment in moments]
    assert after("datetime2(7)", micros, MICROS) == whole


@SOME
@given(many(st.datetimes(datetime(1678, 1, 1), datetime(2262, 1, 1))))
def test_nanoseconds_keep_the_seventh_digit(moments: list[datetime]) -> None:
    since = [moment - datetime(1970, 1, 1) for moment in moments]
    counts = [delta // timedelta(microseconds=1) * 1000 + 700 for delta in since]
    assert after("datetime2(7)", counts) == [f"{moment:%Y-%m-%d %H:%M:%S.%f}7" for moment in moments]
    assert after("datetime2(7)", counts, NANOS) == after("datetime2(7)", counts)
    assert after("datetime2(6)", [count - 700 for count in counts], NANOS) == moments


def test_a_nanosecond_that_a_column_does_not_have_does_not_fit_it() -> None:
    assert reasons("datetime2(6)", [1_001], NANOS) == ["value_does_not_fit"]


@pytest.mark.parametrize(
    ("kind", "source", "count", "millisecond"),
    [
        ("datetime2(3)", MICROS, 883_000, 883), ("datetime2(3)", MICROS, 883_100, None),
        ("datetime2(3)", NANOS, 883_000_000, 883), ("datetime2(3)", NANOS, 883_333_300, None),
        ("datetime", MICROS, 883_000, 883), ("datetime", MICROS, 883_333, 883),
        ("datetime", MICROS, 886_667, 887), ("datetime", MICROS, 886_666, 887),
        ("datetime", MICROS, 883_300, None), ("datetime", MICROS, 883_123, None),
        ("datetime", NANOS, 883_333_300, 883), ("datetime", NANOS, 886_666_700, 887),
        ("datetime", NANOS, 886_666_667, 887), ("datetime", NANOS, 883_330_000, None),
        # A unit beside a third is another time.
        ("datetime", MICROS, 1, None), ("datetime", MICROS, 883_332, None),
        ("datetime", MICROS, 999_999, None), ("datetime", NANOS, 883_334_000, None),
        # Before 1970: -.116667 is .883333 of the previous second.
        ("datetime", MICROS, -116_667, 883),
    ],
)  # fmt: skip
def test_a_count_has_the_digits_of_its_type(
    kind: str, source: dict[str, Any], count: int, millisecond: int | None
) -> None:
    """A `datetime` counts thirds of 10 ms, which SQL Server prints as .003 and .007."""
    if millisecond is None:
        assert reasons(kind, [count], source) == ["value_does_not_fit"]
    else:
        moment = datetime(1970, 1, 1) - timedelta(seconds=count < 0)
        assert after(kind, [count], source) == [moment + timedelta(milliseconds=millisecond)]


def wrapped(moment: datetime) -> int:
    """Nanoseconds since 1970 in 64 bits. Java's arithmetic overflows outside the years 1677 to 2262."""
    exact = (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1) * 1000
    return (exact + 2**63) % 2**64 - 2**63


def reasons(kind: str, cells: list[Any], source: Mapping[str, Any] | None = None) -> list[str | None]:
    """Returns the quarantine reasons of a column's cells: the same in after and before images."""
    name = f"c {TYPES.index(kind)}"
    rows = [{"id": at, name: cell} for at, cell in enumerate(cells)]
    deletes = batch(json.dumps(event("d", row, None)).encode() for row in rows)
    inserted, deleted = (
        [row["reason"] for row in decode(each, plan(**(source or {}))).to_pylist()]
        for each in (inserts(rows), deletes)
    )
    assert inserted == deleted
    return inserted


@SOME
@given(many(st.one_of(st.datetimes(max_value=datetime(1677, 9, 1)), st.datetimes(datetime(2262, 5, 1)))))
def test_nanoseconds_that_wrapped_around_are_no_time(moments: list[datetime]) -> None:
    counts = [wrapped(moment) for moment in moments]
    assert set(reasons("datetime2(7)", counts)) == {"value_does_not_fit"}
    for kind in ("datetime2(7)", "datetime2(6)", "datetime2(3)", "smalldatetime"):
        assert set(reasons(kind, counts, NANOS)) == {"value_does_not_fit"}
    # Thirds of 10 ms. No multiple of 2^64 comes near one, but other counts can wrap to one.
    ticks = [wrapped(moment.replace(microsecond=moment.microsecond // 10_000 * 10_000)) for moment in moments]
    assert set(reasons("datetime", ticks, NANOS)) == {"value_does_not_fit"}


def test_a_count_finer_than_its_column_is_none_of_its_values() -> None:
    assert reasons("datetime2(7)", [1, 99, 100, None]) == ["value_does_not_fit"] * 2 + [None] * 2
    assert reasons("time(7)", [34_567_000_000_101, 34_567_000_000_100]) == ["value_does_not_fit", None]
    assert reasons("time(3)", [34_567_000_100, 34_567_001_000], MICROS) == ["value_does_not_fit", None]
    assert reasons("time(0)", [1_000, 1_001]) == [None, "value_does_not_fit"]
    assert after("time(3)", [34_567_001_000], MICROS) == ["09:36:07.001"]


@SOME
@given(many(st.times()))
def test_a_time_counts_from_midnight(clocks: list[time]) -> None:
    seconds = [clock.hour * 3600 + clock.minute * 60 + clock.second for clock in clocks]
    nanos = [(at * 10**6 + clock.microsecond) * 1000 + 300 for at, clock in zip(seconds, clocks, strict=True)]
    assert after("time(7)", nanos) == [f"{clock:%H:%M:%S.%f}3" for clock in clocks]
    assert after("time(3)", [at * 1000 + 7 for at in seconds]) == [
        f"{clock:%H:%M:%S}.007" for clock in clocks
    ]
    assert after("time(0)", [at * 1000 for at in seconds]) == [f"{clock:%H:%M:%S}" for clock in clocks]
    assert after("time(7)", nanos, NANOS) == after("time(7)", nanos)
    micros = [count // 1000 for count in nanos]
    in_micros = {"time.precision.mode": "adaptive_time_microseconds"}
    expected = [f"{clock:%H:%M:%S.%f}0" for clock in clocks]
    assert after("time(7)", micros, in_micros) == after("time(7)", micros, MICROS) == expected


@SOME
@given(many(st.binary()))
def test_bytes_are_in_either_alphabet_or_in_hex(values: list[bytes]) -> None:
    texts = [b64encode(value).decode() for value in values]
    assert after("varbinary(max)", texts) == values
    assert after("varbinary(max)", [text.translate({43: "-", 47: "_"}) for text in texts]) == values
    assert (
        after("varbinary(max)", [value.hex() for value in values], {"binary.handling.mode": "hex"}) == values
    )


def test_a_decimal_of_places_alone_has_no_whole_number() -> None:
    """SQL Server's decimal(38,38) is less than 1, so 4 does not fit.

    Arrow would turn 4, whose unscaled number needs more than 128 bits, into 0.597...
    """
    source = DebeziumSource.model_validate({"topics": ["t"], "decimal.handling.mode": "string"})
    cell = cell_of(Column(name="c", type="decimal(38,38)", ordinal=1), source)
    for written in (b'"4"', b"4", b'"-3.5"'):
        assert cell.read(written.decode().strip('"')) is None
        column = cell.convert([msgspec.Raw(b'"0.5"'), msgspec.Raw(written)])
        assert column.values.to_pylist() == [Decimal("0.5"), None]
        assert column.unfit is not None
