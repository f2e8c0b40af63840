"""Times, GUIDs and padded text, as the dialects write them in text: in messages, exports, results of queries.

They are read in one way for all: strict, and into the type's canonical form (docs/types.md), so that one
value has one text, and text orders as time does. What others write beside the forms of CES is brought into
these first (`form`).
"""

from __future__ import annotations

from changeledger.change import literal
from changeledger.contract import Column, SqlType

_END = r"\z"
_DAY = "(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_OFFSET = "([+-](0[0-9]|1[0-4]):[0-5][0-9]|Z)"
_GUID = "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
_LAST_INSTANT = "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"


def is_read_here(sql: SqlType) -> bool:
    return sql.base in _READERS


def form(told: str, column: Column) -> str:
    """SQL text: the text without a Z or a midnight, which say nothing, and with zeros that were left out."""
    base = column.sql_type.base
    if base in _DATE_AND_CLOCK:
        text = f"rtrim('Z', {told})"
        whole = f"WHEN 10 THEN concat({text}, ' 00:00:00') WHEN 16 THEN concat({text}, ':00')"
        return f"CASE length({text}) {whole} ELSE {text} END"
    if base == "date":
        midnight = "'^(.{10})[T ]00:00(:00([.]0*)?)?Z?$'"
        return f"CASE WHEN length({told}) > 10 THEN regexp_replace({told}, {midnight}, '$1') ELSE {told} END"
    if base == "datetimeoffset":
        # PostgreSQL prints whole hours alone.
        return f"CASE WHEN substring({told}, -3, 1) IN ('+', '-') THEN concat({told}, ':00') ELSE {told} END"
    return told


def value(form: str, sql: SqlType) -> str:
    """SQL text: the value of a form in the type that the lake has for it; NULL where it does not fit."""
    return _READERS[sql.base](form, sql)


def fits(form: str, pattern: str, value: str) -> str:
    """SQL text: the value, where the whole form is as the pattern says; else NULL."""
    # \z and not $, which would let a line end pass.
    return f"CASE WHEN {form} RLIKE {literal(f'^{pattern}' + _END)} THEN {value} END"


def _guid(form: str, _sql: SqlType) -> str:
    return fits(form, _GUID, f"upper({form})")


def _date(form: str, _sql: SqlType) -> str:
    return fits(form, _DAY, f"try_cast({form} AS DATE)")


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
        return fits(form, pattern, read)
    return fits(form, pattern, f"CASE WHEN {read} <= {_LAST_INSTANT} THEN {read} END")


def _time(form: str, sql: SqlType) -> str:
    digits = sql.fraction_digits
    return fits(form, _CLOCK + _fraction(digits), _clock(form, digits))


def _datetimeoffset(form: str, sql: SqlType) -> str:
    """`2018-07-13 12:23:45.456 +11:00` as `2018-07-13T12:23:45.4560000+11:00`: with its own offset."""
    digits = sql.fraction_digits
    clock = f"regexp_extract({form}, '^.{{11}}([0-9:.]+)', 1)"
    written = f"regexp_extract({form}, {literal(_OFFSET + _END)}, 1)"
    offset = f"CASE WHEN {written} IN ('Z', '-00:00') THEN '+00:00' ELSE {written} END"
    told = f"concat(substring({form}, 1, 10), 'T', {_clock(clock, digits)}, {offset})"
    valid = f"try_cast(substring({form}, 1, 10) AS DATE) IS NOT NULL"
    pattern = f"{_DAY}[ T]{_CLOCK}{_fraction(digits)} ?{_OFFSET}"
    return fits(form, pattern, f"CASE WHEN {valid} THEN {told} END")


def _clock(clock: str, digits: int) -> str:
    """`hh:mm:ss` with exactly so many digits of a second."""
    if not digits:
        return f"substring({clock}, 1, 8)"
    return f"rpad(concat(substring({clock}, 1, 8), '.', substring({clock}, 10)), {9 + digits}, '0')"


def _char(form: str, sql: SqlType) -> str:
    """Padded to its length, as SQL Server has it.

    A `char` counts bytes of its code page, which is not known: only of ASCII are they the characters.
    """
    length = sql.length or 1
    is_ascii = f"octet_length({form}) = length({form})"
    padded = f"rpad({form}, {length}, ' ')"
    return f"CASE WHEN length({form}) < {length} AND {is_ascii} THEN {padded} ELSE {form} END"


def _nchar(form: str, sql: SqlType) -> str:
    """As `_char`; it counts the units of UTF-16."""
    length = sql.length or 1
    lacking = f"{length} - octet_length(encode({form}, 'UTF-16LE')) DIV 2"
    padded = f"concat({form}, repeat(' ', {lacking}))"
    return f"CASE WHEN length({form}) < {length} THEN {padded} ELSE {form} END"


_DATE_AND_CLOCK = {"datetime", "smalldatetime", "datetime2"}
_READERS = {
    "uniqueidentifier": _guid,
    "char": _char,
    "nchar": _nchar,
    "date": _date,
    "time": _time,
    "datetimeoffset": _datetimeoffset,
    **dict.fromkeys(_DATE_AND_CLOCK, _datetime),
}
