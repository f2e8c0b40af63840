"""The schema block decides how to read a value; a record with a contradicting block is quarantined."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changeledger.config.tables import TableConfig
from changeledger.dialects.debezium.decode import decode
from changeledger.dialects.debezium.dialect import DEBEZIUM
from changeledger.dialects.debezium.field_types import column_type, fields_of
from changeledger.dialects.debezium.fields import contradiction
from changeledger.dialects.debezium.plan import TablePlan
from changeledger.model.contract import Column, Contract
from changeledger.model.sql_type import SqlType
from sourcelab.avro_converter import AvroConverter
from sourcelab.messages import Message
from sourcelab.schema_registry import SchemaRegistry
from tests.dialects.debezium.decoding import KEY, batch, block, event, feed, one_by_one
from tests.dialects.debezium.test_values import ODD, SOURCES, TYPES
from tests.dialects.debezium.written import (
    BINARY_MODES,
    DECIMAL,
    DECIMAL_MODES,
    TIME_MODES,
    Cell,
    binary,
    decimal,
    field,
    moment,
    unscaled,
)
from tests.dialects.reading import read as by_kernel


def plan(kind: str, **source: str) -> TablePlan:
    """The plan of a table with its key and the column `c`."""
    columns = (
        Column(name="id", type="int", ordinal=1, key_position=1, nullable=False),
        Column(name="c", type=kind, ordinal=2),
    )
    settings = {name.replace("_", "."): value for name, value in source.items()}
    stated = [{"name": c.name, "type": c.type} for c in columns]
    contract = Contract(table="dbo.t", columns=columns)
    of_table = feed({"table": "dbo.t", "columns": stated}, **settings)
    return TablePlan(of_table, contract, contract, "window", database="d")


def sent(value: Any, op: str, said: Mapping[str, Any] | None) -> bytes:
    """A message whose column `c` has the value.

    `op`: `c` has it in the after image, `d` in the before image, `u` in both.
    """
    row = {"id": 1, "c": value}
    payload = event(op, row if op in "ud" else None, row if op in "cu" else None)
    return json.dumps(payload if said is None else {"schema": of_cell(said), "payload": payload}).encode()


def of_cell(said: Mapping[str, Any]) -> dict[str, Any]:
    """The schema block of messages in which `c` has this field."""
    return block({**said, "field": "c"})


def read(cells: Sequence[Cell], how: TablePlan, *, with_block: bool = True) -> list[Any]:
    """Reads the cells: the value of each, or the reason why it is quarantined.

    The result is the same in every image, and the same vectorised and one by one.
    """
    raw = batch([sent(c.value, op, c.field if with_block else None) for c in cells for op in "cud"])
    rows = decode(raw, how).to_pylist()
    assert one_by_one(raw, how).to_pylist() == rows
    return values_of(rows)


def values_of(rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Returns the value of each cell, or its reason: the same in its three messages."""
    values = []
    for at in range(0, len(rows), 3):
        each = [row["reason"] or (row["after"] or row["before"])["c"] for row in rows[at : at + 3]]
        assert each == each[:1] * 3
        values.append(each[0])
    return values


def read_as_avro(cells: Sequence[Cell], how: TablePlan) -> list[Any]:
    """As `read`, for messages that Connect's Avro converter encoded."""
    registry = SchemaRegistry()
    key = json.dumps({"schema": {"type": "struct", "name": "s.Key", "fields": [KEY]}, "payload": {"id": 1}})
    messages = [Message("t", key.encode(), sent(c.value, op, c.field), (), 0) for c in cells for op in "cud"]
    encoded = AvroConverter(registry.register).encoded(messages)
    raw = batch(message.value for message in encoded)
    stated = [{"name": c.name, "type": c.type} for c in how.contract.columns]
    table = {"table": "dbo.t", "key": ["id"], "columns": stated}
    of_table = how.feed.model_copy(update={"tables": (TableConfig.model_validate(table),)})
    decoded = by_kernel(DEBEZIUM.kernel, raw, of_table, {}, registry.schemas)
    rows = [row for part in decoded for row in part.to_pylist()]
    return values_of(sorted(rows, key=lambda row: row["source_position"]["offset"]))


MOMENT = datetime(2025, 11, 24, 16, 0, 0, 123_456)
MILLIS = MOMENT.replace(microsecond=123_000)
TIMES = [
    ("date", date(2025, 11, 24), 0, date(2025, 11, 24)),
    ("date", date(1, 1, 1), 0, date(1, 1, 1)),
    ("time(3)", time(16, 0, 0, 123_000), 0, "16:00:00.123"),
    ("time(7)", time(16, 0, 0, 123_000), 0, "16:00:00.1230000"),
    ("time(7)", time(0, 0, 0, 57_000), 0, "00:00:00.0570000"),
    ("datetime", MILLIS, 0, MILLIS),
    ("smalldatetime", datetime(1900, 1, 1), 0, datetime(1900, 1, 1)),
    ("datetime2(0)", datetime(2025, 11, 24), 0, datetime(2025, 11, 24)),
    ("datetime2(3)", MILLIS, 0, MILLIS),
    ("datetime2(6)", MILLIS, 0, MILLIS),
    ("datetime2(7)", MILLIS, 0, "2025-11-24 16:00:00.1230000"),
]


@pytest.mark.parametrize(("connector", "feed"), list(product(TIME_MODES, TIME_MODES)))
def test_a_time_is_read_in_the_unit_of_its_block(connector: str, feed: str) -> None:
    for kind, value, ticks, expected in TIMES:
        digits = SqlType.parse(kind).fraction_digits
        written = moment(value, digits, connector, ticks)
        how = plan(kind, time_precision_mode=feed)
        assert read([written], how) == [expected], kind
        if connector == feed:
            assert read([written], how, with_block=False) == [expected], kind


@pytest.mark.parametrize("mode", ["adaptive", "isostring", "nanoseconds", "structured"])
def test_the_seventh_digit_is_kept_where_the_connector_writes_it(mode: str) -> None:
    seventh = [moment(MOMENT, 7, mode, 7), moment(MOMENT.time(), 7, mode, 7)]
    assert read(seventh[:1], plan("datetime2(7)")) == ["2025-11-24 16:00:00.1234567"]
    assert read(seventh[1:], plan("time(7)")) == ["16:00:00.1234567"]
    # Finer than the column's precision.
    assert read(seventh[:1], plan("datetime2(3)")) == ["value_does_not_fit"]
    assert read(seventh[1:], plan("time(3)")) == ["value_does_not_fit"]


NUMBERS = [
    ("decimal(18,0)", "1234"),
    ("decimal(18,3)", "1.123"),
    ("numeric(5,2)", "-100.25"),
    ("money", "1234.5000"),
    ("smallmoney", "0.0001"),
    ("decimal(38,10)", "12345678.0000000000"),
]


@pytest.mark.parametrize(("connector", "feed"), list(product(DECIMAL_MODES, DECIMAL_MODES)))
def test_a_decimal_is_read_as_its_block_writes_it(connector: str, feed: str) -> None:
    for kind, text in NUMBERS:
        written, how = decimal(Decimal(text), connector), plan(kind, decimal_handling_mode=feed)
        assert read([written], how) == [Decimal(text)], kind
        if connector == feed:
            assert read([written], how, with_block=False) == [Decimal(text)], kind


@pytest.mark.parametrize("feed", DECIMAL_MODES)
def test_a_decimal_has_the_scale_of_its_block(feed: str) -> None:
    """The block's scale counts after ALTER COLUMN, and where the feed states another scale."""
    how = plan("decimal(18,4)", decimal_handling_mode=feed)
    cells = [decimal(Decimal(text), "precise") for text in ("11.23", "1123", "1.12345", "1.123450000")]
    assert read(cells, how) == [Decimal("11.23"), 1123, "value_does_not_fit", "value_does_not_fit"]
    # More digits than the type has.
    assert read([decimal(Decimal("123456789012345"), "precise")], how) == ["value_does_not_fit"]


DOUBLES = {
    123456789012345.0: 123456789012345,
    # 15 digits, whatever the exponent.
    1.23456789012345e17: 123456789012345000,
    0.0001: Decimal("0.0001"),
    # 17 digits: the decimal may have more.
    1.2345678901234567e17: "inexact_number",
    123456789012.3456: "inexact_number",
    -123456789012.3456: "inexact_number",
}


@pytest.mark.parametrize("kind", ["decimal(22,4)", "numeric(38,4)", "money"])
def test_a_double_of_more_than_15_digits_is_no_decimal(kind: str) -> None:
    doubles = {n: v for n, v in DOUBLES.items() if kind != "money" or n < 9e14}
    for mode in DECIMAL_MODES:
        cells = [Cell(field("double"), number) for number in doubles]
        how = plan(kind, decimal_handling_mode=mode)
        assert read(cells, how) == list(doubles.values())
        if mode == "double":
            assert read(cells, how, with_block=False) == list(doubles.values())


def test_the_number_of_a_decimal_is_exact() -> None:
    """The JSON converter's `decimal.format: NUMERIC` keeps all digits of a decimal."""
    said = decimal(Decimal("1.0000"), "precise").field
    raw = sent("#", "c", said), sent("#", "c", None)
    numbers = [value.replace(b'"#"', b"123456789012345678.1234") for value in raw]
    for mode in DECIMAL_MODES:
        rows = decode(batch(numbers), plan("decimal(22,4)", decimal_handling_mode=mode)).to_pylist()
        exact = Decimal("123456789012345678.1234")
        # Without a block, the feed's mode tells whether the number was a double.
        without = exact if mode == "precise" else None
        assert [row["after"] and row["after"]["c"] for row in rows] == [exact, without]
        assert [row["reason"] for row in rows] == [None, None if without else "inexact_number"]


@pytest.mark.parametrize(("connector", "feed"), list(product(BINARY_MODES, BINARY_MODES)))
@pytest.mark.parametrize("kind", ["varbinary(50)", "binary(4)", "rowversion", "varbinary(max)"])
def test_text_of_bytes_is_read_only_where_its_form_is_known(kind: str, connector: str, feed: str) -> None:
    words = 2 if kind == "rowversion" else 1
    values = [word * words for word in (b"\xde\xad\xbe\xef", b"\x00\x00\x00\x01", b"\xff\xfe\xfb\xff")]
    cells, how = [binary(value, connector) for value in values], plan(kind, binary_handling_mode=feed)
    if connector in {"bytes", feed}:
        assert read(cells, how) == values
    elif feed == "bytes":
        assert read(cells, how) == ["schema_contradicts"] * 3
    if connector == feed:
        assert read(cells, how, with_block=False) == values


def test_a_refusal_names_the_setting() -> None:
    cases = [
        ("varbinary(50)", Cell(field("string"), "DEADBEEF"), {}, "binary.handling.mode"),
        ("time(7)", Cell(field("int32"), 57_600_123), {}, "time.precision.mode"),
        ("datetime2(7)", Cell(field("int64"), 57_600_123), {"time_precision_mode": "isostring"},
         "time.precision.mode"),
        ("decimal(22,4)", Cell(field("double"), 1.2345678901234567e17), {}, "decimal.handling.mode"),
    ]  # fmt: skip
    for kind, cell, source, setting in cases:
        (row,) = decode(batch([sent(cell.value, "c", cell.field)]), plan(kind, **source)).to_pylist()
        assert row["disposition"] == "quarantined"
        assert setting in row["detail"]
        assert f"c {kind}" in row["detail"]


WRONG = {
    "bytes as a Decimal": decimal(Decimal("1234"), "precise"),
    "days": moment(date(2025, 11, 24), 0, "adaptive"),
    "a time": moment(time(16), 7, "adaptive"),
    "milliseconds": moment(MILLIS, 3, "connect"),
    "nanoseconds": moment(MOMENT, 7, "adaptive"),
    "a time with an offset": Cell(field("string", "io.debezium.time.ZonedTime"), "10:15:30Z"),
    "bytes": Cell(field("bytes"), "MTIz"),
    "a boolean": Cell(field("boolean"), True),
    "an object of parts": moment(MOMENT, 7, "structured"),
    "a text with an offset": Cell(
        field("string", "io.debezium.time.ZonedTimestamp"), "2018-06-20T15:13:16.945Z"
    ),
    "ISO text": Cell(field("string", "io.debezium.time.IsoTimestamp"), "2025-11-24T16:00:00.123Z"),
    "a double": Cell(field("double"), 0.1),
    "a 64-bit number": Cell(field("int64"), 9_007_199_254_740_993),
    "text": Cell(field("string"), "1234"),
}
# The lake's values of these cells, by column type.
RIGHT: dict[str, dict[str, Any]] = {
    "bit": {"a boolean": True},
    "int": {"text": 1234},
    "bigint": {"text": 1234, "a 64-bit number": 9_007_199_254_740_993},
    "real": {},
    "float": {"a double": 0.1},
    "decimal(18,3)": {
        "bytes as a Decimal": 1234, "a double": Decimal("0.1"), "text": 1234,
        "a 64-bit number": "value_does_not_fit",
    },
    "date": {"days": date(2025, 11, 24)},
    "time(7)": {"a time": "16:00:00.0000000"},
    "datetime": {"milliseconds": MILLIS, "ISO text": MILLIS},
    "datetime2(3)": {"milliseconds": MILLIS, "ISO text": MILLIS},
    "datetimeoffset(7)": {"a text with an offset": "2018-06-20T15:13:16.9450000+00:00"},
    "uniqueidentifier": {},
    "varbinary(max)": {"bytes": b"123"},
    "nvarchar(max)": {
        "a time with an offset": "10:15:30Z", "a text with an offset": "2018-06-20T15:13:16.945Z",
        "text": "1234",
        "a 64-bit number": "9007199254740993",
        "ISO text": "2025-11-24T16:00:00.123Z",
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", RIGHT)
def test_a_column_has_values_of_its_own_type_only(kind: str) -> None:
    for name, cell in WRONG.items():
        (value,) = read([cell], plan(kind))
        if name in RIGHT[kind]:
            assert value == RIGHT[kind][name], name
        else:
            assert value in {"schema_contradicts", "value_does_not_fit"}, name


def of_type(kind: str) -> list[Cell]:
    """Cells that fit a column's type, and cells that do not."""
    digits = SqlType.parse(kind).fraction_digits
    return [
        *(moment(value, digits, mode) for mode in TIME_MODES for at, value, _, _ in TIMES if at == kind),
        *(decimal(Decimal(text), mode) for mode in DECIMAL_MODES for at, text in NUMBERS if at == kind),
        *(binary(b"\xde\xad", mode) for mode in BINARY_MODES),
        *(Cell(field("double"), number) for number in DOUBLES),
        *WRONG.values(),
    ]


@pytest.mark.parametrize("kind", RIGHT)
def test_the_schema_of_avros_writer_is_a_block_too(kind: str) -> None:
    how = plan(kind, time_precision_mode="nanoseconds", decimal_handling_mode="string")
    cells = of_type(kind)
    assert read_as_avro(cells, how) == read(cells, how)


KINDS = (
    "boolean", "int8", "int16", "int32", "int64", "float", "double", "string", "bytes", "struct", "array",
    "map", "union", "null",
)  # fmt: skip
TEMPORAL = {
    "int32": ("Date", "Time"),
    "int64": (
        "MicroTime", "NanoTime", "Timestamp", "MicroTimestamp", "NanoTimestamp", "MicroDuration",
    ),
    "string": ("ZonedTimestamp", "ZonedTime", "IsoDate", "IsoTime", "IsoTimestamp", "Interval"),
    "struct": (
        "StructuredDate", "StructuredTime", "StructuredTimestamp", "StructuredZonedTimestamp",
        "StructuredZonedTime", "StructuredDuration",
    ),
}  # fmt: skip


def test_a_column_that_a_block_gives_is_read_by_the_block() -> None:
    said = [field(kind) for kind in KINDS]
    said += [field(kind, f"io.debezium.time.{name}") for kind, names in TEMPORAL.items() for name in names]
    said += [field("string", "io.debezium.data.Xml"), field("string", "io.debezium.data.Uuid")]
    said += [field("struct", "io.debezium.data.geometry.Geography"), decimal(Decimal("1.1"), "precise").field]
    for stated in said:
        kind = column_type(stated).sql_type
        assert read([Cell(stated, None)], plan(kind)) == [None]
        fields = fields_of(of_cell(stated), ("c",))
        assert fields is not None
        source = plan(kind).source
        assert contradiction(SqlType.parse(kind), source, fields[0]) is None, stated


SAID = st.sampled_from(
    [
        *(field(kind) for kind in KINDS),
        *(field(kind, f"io.debezium.time.{name}") for kind, names in TEMPORAL.items() for name in names),
        *(decimal(Decimal(text), "precise").field for text in ("1", "1.1", "1.00000", "0." + "1" * 38)),
        field("bytes", DECIMAL, parameters={"scale": "-3"}),
        field("bytes", DECIMAL, parameters={"scale": "99"}),
        field("bytes", DECIMAL),
    ]
)
CELLS = st.one_of(
    ODD,
    st.sampled_from([value.value for value in WRONG.values()]),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(sorted({*RIGHT, *TYPES})),
    st.lists(st.tuples(SAID, CELLS), min_size=1, max_size=8),
    st.sampled_from(SOURCES),
)
def test_any_cell_under_any_block_is_read_by_types_as_alone(
    kind: str, cells: list[tuple[dict[str, Any], Any]], source: dict[str, str]
) -> None:
    how = plan(kind, **{name.replace(".", "_"): value for name, value in source.items()})
    read([Cell(said, value) for said, value in cells], how)


def test_null_and_a_placeholder_need_no_certain_type() -> None:
    placeholder = "__debezium_unavailable_value"
    cells = [Cell(field("string"), None), Cell(field("string"), placeholder), Cell(field("string"), "AQID")]
    rows = decode(batch([sent(c.value, "c", c.field) for c in cells]), plan("varbinary(max)")).to_pylist()
    assert [row["reason"] for row in rows] == [None, None, "schema_contradicts"]
    assert [row["after_unknown_columns"] for row in rows[:2]] == [None, [("c", "unavailable")]]


def test_each_message_is_read_by_its_own_block() -> None:
    """The connector switched to another mode between two messages of a topic."""
    cells = [decimal(Decimal("1234"), mode) for mode in ("precise", "string", "double", "precise")]
    assert read(cells, plan("decimal(18,0)")) == [1234] * 4
    units = [moment(MILLIS, 3, mode) for mode in (*TIME_MODES, *TIME_MODES)]
    assert read(units, plan("datetime2(3)")) == [MILLIS] * len(units)


def test_a_block_is_found_wherever_it_stands() -> None:
    said = moment(MILLIS, 3, "microseconds")
    message = json.loads(sent(said.value, "c", said.field))
    turned = json.dumps({"payload": message["payload"], "schema": message["schema"]}, indent=1).encode()
    rows = decode(batch([turned, sent(said.value, "c", said.field)]), plan("datetime2(3)")).to_pylist()
    assert [row["after"]["c"] for row in rows] == [MILLIS, MILLIS]


def test_a_block_behind_the_payload_is_the_one_of_its_message_alone() -> None:
    """Both messages begin alike up to the first `null`, which is the whole block of one of them."""
    said = [moment(MILLIS, 3, mode) for mode in ("adaptive", "microseconds")]
    messages = [json.loads(sent(cell.value, "c", cell.field)) for cell in said]
    turned = [
        {"payload": messages[0]["payload"], "schema": None},
        {"payload": messages[1]["payload"], "schema": messages[1]["schema"]},
    ]
    rows = decode(batch([json.dumps(m).encode() for m in turned]), plan("datetime2(3)")).to_pylist()
    assert [row["after"] and row["after"]["c"] for row in rows] == [MILLIS, MILLIS]


@pytest.mark.parametrize(
    "broken", [None, [], {"fields": None}, {"fields": [1]}, {"fields": [{"field": "c"}]}]
)
def test_a_block_that_is_none_says_nothing(broken: Any) -> None:
    message = json.loads(sent(unscaled(1234), "c", field("string")))
    message["schema"] = broken
    (row,) = decode(batch([json.dumps(message).encode()]), plan("decimal(18,0)")).to_pylist()
    assert row["after"]["c"] == 1234
