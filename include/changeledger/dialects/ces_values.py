"""The text of a CES cell as a value of its type.

Every value is text; how bit, float and binary are written is not published, so all plausible forms are
read: `0/1/true/false`, any decimal text of a float, `0x` hex or base64.
"""

from __future__ import annotations

from changeledger import images
from changeledger.change import literal
from changeledger.contract import Column as ContractColumn
from changeledger.contract import SqlType
from changeledger.images import Wire

_END = r"\z"
_DAY = "(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_OFFSET = "([+-](0[0-9]|1[0-4]):[0-5][0-9]|Z)"
_GUID = "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
_NUMBER = "[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?"
_LAST_INSTANT = "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"

# The producer cuts a value above 1 MB to 1 MB before it writes the event. Which megabyte, and of which
# encoding, is not published: a size just below either of them is taken for a cut one.
_MEGABYTES = (1_000_000, 1_048_576)
# A cut may fall inside a character, and then leaves up to three bytes less.
_SHORT_BY = 3
# No text of fewer characters can be one megabyte in any encoding (four bytes a character).
_FEWEST_CHARACTERS = (_MEGABYTES[0] - _SHORT_BY) // 4

# Stands for a cut value; of private use, so that no text of a table is likely to be it.
CUT = "\ue000cut at 1 MB\ue000"


def wire(binaries: str) -> Wire:
    """`binaries`: how binary values are written: `hex`, `base64`, or `any` of both."""

    def value(form: str, column: ContractColumn) -> str:
        return _value(form, column.sql_type, binaries)

    return Wire(lambda told, _: told, value)


def _value(form: str, sql: SqlType, binaries: str) -> str:
    if sql.spark == "binary":
        return _binary(form, binaries)
    if sql.spark.startswith("decimal"):
        return _decimal(form, sql)
    if sql.base in _READERS:
        return _READERS[sql.base](form, sql)
    return form if sql.spark == "string" else f"try_cast({form} AS {sql.spark})"


def _fits(form: str, pattern: str, value: str) -> str:
    # \z and not $, which would let a line end pass.
    return f"CASE WHEN {form} RLIKE {literal(f'^{pattern}' + _END)} THEN {value} END"


def _bit(form: str, _sql: SqlType) -> str:
    told = f"lower({form})"
    return f"CASE WHEN {told} IN ('1', 'true') THEN true WHEN {told} IN ('0', 'false') THEN false END"


def _floating(form: str, sql: SqlType) -> str:
    return _fits(form, _NUMBER, f"try_cast({form} AS {sql.spark})")


def _decimal(form: str, sql: SqlType) -> str:
    return _fits(form, _NUMBER, images.decimal(form, sql))


def _binary(form: str, binaries: str) -> str:
    hexadecimal = (
        f"CASE WHEN lower(substring({form}, 1, 2)) = '0x' AND length({form}) % 2 = 0 "
        f"THEN try_to_binary(substring({form}, 3), 'hex') END"
    )
    # Without its padding a text has lost its end.
    base64 = f"CASE WHEN length({form}) % 4 = 0 THEN try_to_binary({form}, 'base64') END"
    return {"hex": hexadecimal, "base64": base64, "any": f"coalesce({hexadecimal}, {base64})"}[binaries]


def _guid(form: str, _sql: SqlType) -> str:
    return _fits(form, _GUID, f"upper({form})")


def _date(form: str, _sql: SqlType) -> str:
    return _fits(form, _DAY, f"try_cast({form} AS DATE)")


def _fraction(digits: int) -> str:
    """Pattern of a fraction of a second that says no more than so many digits, and has at most nine."""
    return f"(?:[.](?![0-9]{{10}})[0-9]{{0,{digits}}}0*)?"


def _datetime(form: str, sql: SqlType) -> str:
    """`datetime` counts thirds of 10 ms: what is told as .8833333 is .883 in its own text."""
    ticks = sql.base == "datetime"
    read = f"try_cast({form} AS TIMESTAMP_NTZ)"
    if ticks:
        rounded = f"CAST({read} + INTERVAL '0.0005' SECOND AS TIMESTAMP)"
        read = f"CAST(date_trunc('MILLISECOND', {rounded}) AS TIMESTAMP_NTZ)"
    digits = 9 if ticks else sql.fraction_digits
    pattern = f"{_DAY}[ T]{_CLOCK}{_fraction(digits)}"
    if sql.spark == "string":
        read = (
            f"CASE WHEN {read} IS NOT NULL THEN "
            f"concat(substring({form}, 1, 10), ' ', {_clock(f'substring({form}, 12)', digits)}) END"
        )
        return _fits(form, pattern, read)
    return _fits(form, pattern, f"CASE WHEN {read} <= {_LAST_INSTANT} THEN {read} END")


def _time(form: str, sql: SqlType) -> str:
    digits = sql.fraction_digits
    return _fits(form, _CLOCK + _fraction(digits), _clock(form, digits))


def _datetimeoffset(form: str, sql: SqlType) -> str:
    """`2018-07-13 12:23:45.4560000 +11:00` as `2018-07-13T12:23:45.456+11:00`: with its own offset."""
    digits = sql.fraction_digits
    clock = f"regexp_extract({form}, '^.{{11}}([0-9:.]+)', 1)"
    offset = f"regexp_extract({form}, {literal(_OFFSET + _END)}, 1)"
    told = f"concat(substring({form}, 1, 10), 'T', {_clock(clock, digits)}, {offset})"
    valid = f"try_cast(substring({form}, 1, 10) AS DATE) IS NOT NULL"
    pattern = f"{_DAY}[ T]{_CLOCK}{_fraction(digits)} ?{_OFFSET}"
    return _fits(form, pattern, f"CASE WHEN {valid} THEN {told} END")


def _clock(clock: str, digits: int) -> str:
    """`hh:mm:ss` with exactly so many digits of a second."""
    if not digits:
        return f"substring({clock}, 1, 8)"
    return f"rpad(concat(substring({clock}, 1, 8), '.', substring({clock}, 10)), {9 + digits}, '0')"


_READERS = {
    "bit": _bit,
    "real": _floating,
    "float": _floating,
    "uniqueidentifier": _guid,
    "date": _date,
    "time": _time,
    "datetime": _datetime,
    "smalldatetime": _datetime,
    "datetime2": _datetime,
    "datetimeoffset": _datetimeoffset,
}


def is_cut(told: str, sql: SqlType, binaries: str) -> str:
    """SQL text: is the cell's text that of a value which the producer has cut?"""
    if sql.spark == "binary":
        sizes = [f"octet_length({_binary(told, binaries)})"]
    elif sql.base in {"varchar", "text"}:
        # One byte a character in most code pages, up to four in UTF-8.
        sizes = [f"octet_length({told})", f"length({told})"]
    else:
        sizes = [f"octet_length({told})", f"octet_length(encode({told}, 'UTF-16LE'))"]
    ranges = [f"{size} BETWEEN {m - _SHORT_BY} AND {m}" for size in sizes for m in _MEGABYTES]
    return f"(length({told}) >= {_FEWEST_CHARACTERS} AND ({' OR '.join(ranges)}))"
