"""Cells of Qlik's JSON: numbers native or as text, exact numbers as text, binary as hex digits, ISO times."""

from __future__ import annotations

from changeledger import images
from changeledger.contract import Column as ContractColumn
from changeledger.dialects import text_values
from changeledger.images import Wire


def _value(form: str, column: ContractColumn) -> str:
    sql = column.sql_type
    if text_values.is_read_here(sql):
        return text_values.value(form, sql)
    if sql.spark == "binary":
        digits = f"CASE WHEN lower({form}) LIKE '0x%' THEN substring({form}, 3) ELSE {form} END"
        return f"try_to_binary({digits}, 'hex')"
    if sql.spark.startswith("decimal"):
        return images.decimal(form, sql)
    return form if sql.spark == "string" else f"try_cast({form} AS {sql.spark})"


WIRE = Wire(text_values.form, _value)
