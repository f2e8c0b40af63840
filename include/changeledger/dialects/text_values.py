"""Times and GUIDs that are told as text: by Qlik's messages, in exports, and by databases as they print them.

CES tells all values as text, so its reading of these types is the one for all: strict, and canonical, so that
text orders as time does. What others write beside its forms is brought into them first.
"""

from __future__ import annotations

from changeledger.contract import Column, SqlType
from changeledger.dialects.ces_values import wire

_DATE_AND_CLOCK = {"datetime", "smalldatetime", "datetime2"}
_BASES = _DATE_AND_CLOCK | {"date", "time", "datetimeoffset", "uniqueidentifier"}
# Of these types the way of writing bytes makes no difference.
_READ = wire("hex").value


def is_read_here(sql: SqlType) -> bool:
    return sql.base in _BASES


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


def value(form: str, column: Column) -> str:
    """SQL text: the value of a form in the type that the lake has for it; NULL where it does not fit."""
    return _READ(form, column)
