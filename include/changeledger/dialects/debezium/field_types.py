"""Reads the fields of a schema block: how each is written, and its SQL Server type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from changeledger.dialects.debezium.fields import (  # fmt: skip
    DATE,
    DECIMAL,
    MEANINGS,
    TIME,
    TIMESTAMP,
    ZONED,
    Field,
    Fields,
    row_fields,
)
from changeledger.kernels import sql_text
from changeledger.model.errors import ContractError
from changeledger.model.sql_type import DECIMALS, SqlType, written

# Errors on reading a schema block that is not Connect's.
BROKEN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, ContractError)
# Range in which the scale of a Decimal is read. Connect has 32 bits for it; three digits exceed any decimal.
_SCALES = (-999, 999)
_LONGEST_CUT = 2**31 - 1
# The SQL Server type that holds each kind of moment.
_MOMENTS = {DATE: "date", TIME: "time", TIMESTAMP: "datetime2", ZONED: "datetimeoffset"}
_MOST_DIGITS = 7
# The greatest precision of a decimal in SQL Server.
_MOST_PRECISE = 38
# Beginning of the semantic types that are objects of a time's parts, and the parameter that can say how many
# digits of a second the column has.
_STRUCTURED, _DIGITS = "io.debezium.time.Structured", "io.debezium.time.precision"
# Other semantic types (`name`) of a schema block.
_SEMANTIC = {"io.debezium.data.Uuid": "uniqueidentifier", "io.debezium.data.Xml": "xml"}
# Prefix of a field's parameters if the connector is set to send the source's types.
_SOURCE_COLUMN = "__debezium.source.column"
# The greatest lengths other than `max`.
_SIZED = {"char": 8000, "varchar": 8000, "nchar": 4000, "nvarchar": 4000, "binary": 8000, "varbinary": 8000}
# The type of text that is not large, whatever its length.
_SHORT_TEXT = "nvarchar(4000)"
# Connect's own types. Any other type keeps its JSON text.
_PLAIN = {
    "boolean": "bit",
    "int8": "smallint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": "real",
    "float32": "real",
    "double": "float",
    "float64": "float",
    "bytes": "varbinary(max)",
}


def fields_of(block: object, columns: Sequence[str]) -> Fields | None:
    """Returns the columns' fields in a schema block, or None if it has none of them.

    A broken field of another column does not affect a column's own.
    """
    of_row = [field for field in row_fields(block) if isinstance(field, dict)]
    named = {str(field.get("field")): read_field(field) for field in of_row}
    fields = tuple(named.get(name) for name in columns)
    return fields if any(fields) else None


def read_field(field: Mapping[str, Any]) -> Field:
    kind, name, said = (field.get(member) for member in ("type", "name", "parameters"))
    parameters = said if isinstance(said, dict) else {}
    return Field(
        kind if isinstance(kind, str) else "a field without a type",
        name if isinstance(name, str) else None,
        sql_text.whole(str(parameters.get("scale")), *_SCALES) if name == DECIMAL else None,
        str(parameters.get("masked")).lower() == "true",
        sql_text.whole(str(parameters.get("truncateLength")), 0, _LONGEST_CUT),
        *_type_if_any(field),
        _stand_in(field),
        field.get("optional") is False,
    )


def _stand_in(field: Mapping[str, Any]) -> str | None:
    """Returns what a connector may write in place of NULL for a column of text or bytes, if anything.

    That is the column's DEFAULT, or an empty text if the column cannot be NULL and has no DEFAULT.
    """
    default = field.get("default")
    if default is None and field.get("optional") is False:
        default = ""
    is_one = field.get("type") in {"string", "bytes"} and isinstance(default, str)
    return default if is_one else None


class TypeSaid(NamedTuple):
    """What a field says of its SQL Server type. `length_stated`: false if it is text or bytes, whose length
    and type in the source nobody states."""

    sql_type: str
    length_stated: bool = True


def column_type(field: Mapping[str, Any]) -> TypeSaid:
    """The SQL Server type for one field of a schema block.

    The type that the connector states for the source (`column.propagate.source.type`) counts only if the lake
    stores it like the field's own type, because other databases have types of the same names. Raises one of
    `BROKEN` if the field is not Connect's, or the lake lacks its type.
    """
    parameters = field.get("parameters") or {}
    wire_type = _wire_type(field.get("name"), str(field.get("type")), parameters)
    parsed = SqlType.parse(wire_type)
    stated = _stated_type(parameters, parsed.spark)
    if stated is not None:
        return TypeSaid(stated)
    if parsed.is_max and parsed.spark == "string" and _is_of_small_values(parameters):
        return TypeSaid(_SHORT_TEXT)
    return TypeSaid(wire_type, not parsed.is_max)


def _type_if_any(field: Mapping[str, Any]) -> tuple[str | None, bool]:
    try:
        return column_type(field)
    except BROKEN:
        return None, True


def _stated_type(parameters: Mapping[str, Any], in_lake: str) -> str | None:
    """Returns the source's own type if the lake stores it as `in_lake`, else None."""
    stated = source_type(parameters)
    try:
        return stated if stated is not None and SqlType.parse(stated).spark == in_lake else None
    except ContractError:
        return None


def _is_of_small_values(parameters: Mapping[str, Any]) -> bool:
    """Returns whether the source's column, written as text here, has a type whose values the log always has.

    Examples: a `decimal` as text (`decimal.handling.mode: string`), a `varbinary(8)` in hex.
    """
    kind = source_type(parameters)
    try:
        return kind is not None and not SqlType.parse(kind).is_large
    except ContractError:
        return False


def _wire_type(name: object, kind: str, parameters: Mapping[str, Any]) -> str:
    if name == DECIMAL:
        # Confluent's Avro converter writes 64 if no precision is stated.
        precision = min(int(parameters.get("connect.decimal.precision", _MOST_PRECISE)), _MOST_PRECISE)
        return f"decimal({precision},{int(parameters.get('scale', 0))})"
    of_name = _moment_type(str(name), parameters) or _SEMANTIC.get(str(name))
    return of_name or _PLAIN.get(kind, "nvarchar(max)")


def _moment_type(name: str, parameters: Mapping[str, Any]) -> str | None:
    """Returns the SQL Server type for a temporal semantic type, or None for any other."""
    held, unit = MEANINGS.get(name, ("", None))
    base, is_structured = _MOMENTS.get(held), name.startswith(_STRUCTURED)
    if base is None or held == DATE or (held == ZONED and not is_structured):
        return base
    digits = int(parameters.get(_DIGITS, _MOST_DIGITS)) if is_structured else unit or _MOST_DIGITS
    return f"{base}({min(digits, _MOST_DIGITS)})"


def source_type(parameters: Mapping[str, Any]) -> str | None:
    """Returns the column's type in the source, or None if the connector does not send it."""
    kind = parameters.get(f"{_SOURCE_COLUMN}.type")
    if kind is None:
        return None
    kind = str(kind).lower().removesuffix(" identity")
    length, scale = (parameters.get(f"{_SOURCE_COLUMN}.{part}") for part in ("length", "scale"))
    if kind in _SIZED:
        # Without a stated length it could be any, including `max`.
        return length and written(kind, -1 if int(length) > _SIZED[kind] else int(length), None, None)
    precision = int(length or 18) if kind in DECIMALS else None
    return written(kind, None, precision, None if scale in {None, ""} else int(scale))
