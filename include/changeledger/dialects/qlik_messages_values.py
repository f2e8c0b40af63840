"""Cells of Qlik's JSON: numbers native or as text, exact numbers as text, binary as hex digits, ISO times."""

from __future__ import annotations

from changeledger import images
from changeledger.contract import Column as ContractColumn
from changeledger.images import Wire

_DATED = "LIKE '____-__-__%'"
# Spark would cut a seventh digit of a second off without a word.
_BEYOND_MICROSECONDS = "RLIKE '[.][0-9]{6}0*[1-9]'"


def _value(form: str, column: ContractColumn) -> str:
    sql = column.sql_type
    typed = f"try_cast({form} AS {sql.spark})"
    if sql.base == "uniqueidentifier":
        return f"upper({form})"
    if sql.spark == "string":
        return _seven_digits(form) if sql.base == "datetime2" else form
    if sql.spark == "binary":
        digits = f"CASE WHEN lower({form}) LIKE '0x%' THEN substring({form}, 3) ELSE {form} END"
        return f"try_to_binary({digits}, 'hex')"
    if sql.spark.startswith("decimal"):
        return images.decimal(form, sql)
    if sql.spark in {"date", "timestamp_ntz"}:
        return f"CASE WHEN {form} {_DATED} AND NOT {form} {_BEYOND_MICROSECONDS} THEN {typed} END"
    return typed


def _seven_digits(form: str) -> str:
    """`2026-08-07 16:25:00.8833333`, from any number of digits, with T or a space."""
    fraction = f"rpad(substring(rtrim('Z', {form}), 21), 7, '0')"
    text = f"concat_ws('', left({form}, 10), ' ', substring({form}, 12, 8), '.', {fraction})"
    return f"CASE WHEN {form} {_DATED} AND try_cast({form} AS timestamp_ntz) IS NOT NULL THEN {text} END"


WIRE = Wire(lambda text, _: text, _value)
