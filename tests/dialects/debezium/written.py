"""Cells as a connector writes them in its modes: the field of the schema block and the JSON value."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

TIME_MODES = (
    "adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds",
    "structured",
)  # fmt: skip
DECIMAL_MODES = ("precise", "string", "double")
BINARY_MODES = ("bytes", "base64", "base64-url-safe", "hex")
_DEBEZIUM, _CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
DECIMAL = f"{_CONNECT}Decimal"
_PREFIXES = {3: "", 6: "Micro", 9: "Nano"}


class Cell(NamedTuple):
    """A cell's JSON value, and its field in the schema block without the name."""

    field: Mapping[str, Any]
    value: Any


def field(kind: str, name: str | None = None, **members: Any) -> dict[str, Any]:
    described = {"type": kind, "optional": True, **members}
    return described if name is None else {**described, "name": name, "version": 1}


def moment(value: date | time | datetime, digits: int, mode: str, ticks: int = 0) -> Cell:
    """A cell of a `date`, `time(digits)` or `datetime2(digits)`.

    `ticks`: units of 100 ns beyond its microseconds.
    """
    if isinstance(value, date) and not isinstance(value, datetime):
        return _day(value, mode)
    what = "Time" if isinstance(value, time) else "Timestamp"
    clock = value if isinstance(value, datetime) else datetime.combine(date(1970, 1, 1), value)
    if mode == "isostring":
        text = f"{clock.isoformat()}Z" if what == "Timestamp" else f"{value.isoformat()}Z"
        return Cell(field("string", f"{_DEBEZIUM}Iso{what}"), _with_ticks(text, clock, ticks))
    if mode == "structured":
        fraction = {"picoseconds": (clock.microsecond * 10 + ticks) * 100_000}
        parts = {"hour": clock.hour, "minute": clock.minute, "second": clock.second, **fraction}
        return _structured(what, parts if what == "Time" else {**_date(clock), **parts})
    unit = _unit(what, digits, mode)
    name = f"{_CONNECT}{what}" if mode == "connect" else f"{_DEBEZIUM}{_PREFIXES[unit]}{what}"
    nanos_since = (clock - datetime(1970, 1, 1)) // timedelta(microseconds=1) * 1000 + ticks * 100
    kind = "int32" if what == "Time" and unit == 3 else "int64"
    return Cell(field(kind, name), nanos_since // 10 ** (9 - unit))


def _with_ticks(text: str, clock: datetime, ticks: int) -> str:
    if not ticks:
        return text
    return text.replace("Z", f"{'' if clock.microsecond else '.000000'}{ticks}Z")


def _unit(what: str, digits: int, mode: str) -> int:
    if mode in {"connect", "microseconds", "nanoseconds"}:
        return {"connect": 3, "microseconds": 6, "nanoseconds": 9}[mode]
    if what == "Time" and mode == "adaptive_time_microseconds":
        return 6
    return 3 if digits <= 3 else 6 if digits <= 6 else 9


def _day(value: date, mode: str) -> Cell:
    if mode == "isostring":
        return Cell(field("string", f"{_DEBEZIUM}IsoDate"), f"{value}Z")
    if mode == "structured":
        return _structured("Date", _date(value))
    name = f"{_CONNECT if mode == 'connect' else _DEBEZIUM}Date"
    return Cell(field("int32", name), (value - date(1970, 1, 1)).days)


def _date(value: date) -> dict[str, int]:
    return {"year": value.year, "month": value.month, "day": value.day}


def _structured(what: str, parts: Mapping[str, int]) -> Cell:
    kinds = {"year": "int32", "picoseconds": "int64"}
    fields = [{**field(kinds.get(name, "int8")), "field": name} for name in parts]
    special = [] if what == "Time" else [{**field("string"), "field": "specialValue"}]
    members = parts if what == "Time" else {**parts, "specialValue": None}
    return Cell(field("struct", f"{_DEBEZIUM}Structured{what}", fields=[*fields, *special]), members)


def decimal(value: Decimal, mode: str) -> Cell:
    if mode == "string":
        return Cell(field("string"), f"{value:f}")
    if mode == "double":
        return Cell(field("double"), float(value))
    places = -int(value.as_tuple().exponent)
    parameters = {"scale": str(places), "connect.decimal.precision": "38"}
    return Cell(field("bytes", DECIMAL, parameters=parameters), unscaled(int(value.scaleb(places))))


def shortest(number: int) -> bytes:
    """The number as Java's `BigInteger.toByteArray`: two's complement with the fewest bytes."""
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(size, "big", signed=True)


def unscaled(number: int) -> str:
    """The number as Connect's Decimal: `shortest` in base64."""
    return b64encode(shortest(number)).decode()


def binary(value: bytes, mode: str) -> Cell:
    if mode == "bytes":
        return Cell(field("bytes"), b64encode(value).decode())
    if mode == "hex":
        return Cell(field("string"), value.hex())
    encode = b64encode if mode == "base64" else urlsafe_b64encode
    return Cell(field("string"), encode(value).decode())
