"""Columns whose values a connector is set to alter: what its schema blocks say of that.

The lake has such values as they are sent, but for keys, so people are told. Sources: Debezium's `MaskStrings`
and `TruncateColumn` (parameters `masked` and `truncateLength`), and its page on SQL Server: with
`decimal.handling.mode: double` and with times of fewer digits than the column has, values may lose digits,
which the source's type shows (`column.propagate.source.type`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from changeledger.dialects.debezium.field_types import source_type
from changeledger.dialects.debezium.fields import Field, read_field, row_fields
from changeledger.dialects.debezium.schema_block import BROKEN, Described
from changeledger.model.column_names import shown
from changeledger.model.errors import ContractError
from changeledger.model.sql_type import SqlType

_DOUBLES = {"double", "float64"}
# How many digits of a second a count has, by its unit.
_UNITS = {3: "milliseconds", 6: "microseconds"}


def warnings(messages: Iterable[Described]) -> list[str]:
    """One for each table."""
    seen: dict[str, dict[str, str]] = {}
    for table, block, _ in messages:
        try:
            altered = {str(f["field"]): how for f in row_fields(block) if (how := _how(f)) is not None}
        except BROKEN:
            continue
        if altered:
            seen.setdefault(table, {}).update(altered)
    return [
        f"{table}: values are not as in the source, as the connector is set to alter them: "
        + ", ".join(f"{shown([name])} {how}" for name, how in altered.items())
        for table, altered in seen.items()
    ]


def _how(field: Mapping[str, Any]) -> str | None:
    """What the connector does with the values of a column; None: nothing that the block says."""
    written = read_field(field)
    return written.altered or _lost_digits(written, field.get("parameters") or {})


def _lost_digits(written: Field, parameters: Mapping[str, Any]) -> str | None:
    try:
        source = SqlType.parse(source_type(parameters) or "")
    except ContractError:
        return None
    if source.spark.startswith("decimal") and written.kind in _DOUBLES:
        return "keeps 15 digits of a decimal (decimal.handling.mode)"
    unit = written.meaning and written.meaning[1]
    is_shorter = source.base in {"time", "datetime2"} and unit in _UNITS and source.fraction_digits > unit
    return f"is counted in {_UNITS[unit or 0]} (time.precision.mode)" if is_shorter else None
