"""Fields of a message's schema block, and whether they fit the columns' types.

The block, or the writer's Avro schema, determines how a value is written: the unit of a count, the scale of
bytes, text or number. The feed's settings decide what the block leaves open, and everything if there is no
block. A block that rules out the column's type, or a setting, is a contradiction: no value can be trusted.

Source: the connector's chapter on data types; Connect's `JsonConverter` (a decimal is base64 of its unscaled
number, or with `decimal.format: NUMERIC` an exact number).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from changeledger.config.sources import DebeziumSource, TimePrecision
from changeledger.model.sql_type import SqlType

DECIMAL = "org.apache.kafka.connect.data.Decimal"
# Kinds of values of temporal columns.
DATE, TIME, TIMESTAMP, ZONED = "date", "time", "timestamp", "timestamp with an offset"
_HOLDS = {
    "date": DATE,
    "time": TIME,
    "datetime": TIMESTAMP,
    "smalldatetime": TIMESTAMP,
    "datetime2": TIMESTAMP,
    "datetimeoffset": ZONED,
}
_DAYS = 0
# For each semantic type its kind of value, and the unit of its count as a power of ten: a second has 10**unit
# of them. The unit is None if the values are no counts.
MEANINGS: Mapping[str, tuple[str, int | None]] = {
    "io.debezium.time.Date": (DATE, _DAYS),
    "org.apache.kafka.connect.data.Date": (DATE, _DAYS),
    "io.debezium.time.Time": (TIME, 3),
    "org.apache.kafka.connect.data.Time": (TIME, 3),
    "io.debezium.time.MicroTime": (TIME, 6),
    "io.debezium.time.NanoTime": (TIME, 9),
    "io.debezium.time.Timestamp": (TIMESTAMP, 3),
    "org.apache.kafka.connect.data.Timestamp": (TIMESTAMP, 3),
    "io.debezium.time.MicroTimestamp": (TIMESTAMP, 6),
    "io.debezium.time.NanoTimestamp": (TIMESTAMP, 9),
    "io.debezium.time.IsoDate": (DATE, None),
    "io.debezium.time.IsoTime": (TIME, None),
    "io.debezium.time.IsoTimestamp": (TIMESTAMP, None),
    "io.debezium.time.ZonedTimestamp": (ZONED, None),
    "io.debezium.time.ZonedTime": ("time with an offset", None),
    "io.debezium.time.StructuredDate": (DATE, None),
    "io.debezium.time.StructuredTime": (TIME, None),
    "io.debezium.time.StructuredTimestamp": (TIMESTAMP, None),
    "io.debezium.time.StructuredZonedTimestamp": (ZONED, None),
}
_WHOLE = frozenset({"int8", "int16", "int32", "int64"})
_SINGLE, _DOUBLE = frozenset({"float", "float32"}), frozenset({"double", "float64"})
_OBJECTS = frozenset({"struct", "array", "map"})
# Modes in which a connector counts all times in one unit.
_UNITS: Mapping[TimePrecision, int] = {"connect": 3, "microseconds": 6, "nanoseconds": 9}


class Field(NamedTuple):
    """One field of a schema block: Connect's type, its semantic name, and the scale of a Decimal.

    * `is_masked`, `cut`: whether the connector masks the text, and to how many characters it cuts it (the
      parameters of Debezium's `MaskStrings` and `TruncateColumn`).
    * `sql_type`: the SQL Server type that the field states, or None if the lake has no such type.
    * `length_stated`: false if the field says only that it is text or bytes.
    * `stand_in`: what may be written for a NULL in text or bytes, or None if nothing but NULL.
    * `never_null`: whether the field says that the column cannot be NULL.
    """

    kind: str
    name: str | None = None
    scale: int | None = None
    is_masked: bool = False
    cut: int | None = None
    sql_type: str | None = None
    length_stated: bool = True
    stand_in: str | None = None
    never_null: bool = False

    @property
    def altered(self) -> str | None:
        """How the connector alters the text, or None if it does not."""
        if self.is_masked:
            return "is masked (column.mask.*)"
        return None if self.cut is None else f"is cut to {self.cut} characters (column.truncate.to.*.chars)"

    def may_be_of_several(self, text: str) -> bool:
        """Returns whether several source values may have become this text. A hash keeps them apart."""
        # Java counts UTF-16 code units.
        is_cut = self.cut is not None and len(text.encode("utf-16-le")) // 2 >= self.cut
        return is_cut or (self.is_masked and not text.strip("*"))

    @property
    def meaning(self) -> tuple[str, int | None] | None:
        """The kind of moment and the unit of its counts (`MEANINGS`), or None for other fields."""
        return MEANINGS.get(self.name or "")

    @property
    def is_single(self) -> bool:
        """Whether it is a 32-bit floating point number, whose text has only the digits that 32 bits need."""
        return self.kind in _SINGLE

    @property
    def is_bare_number(self) -> bool:
        """Whether it is a whole number without a semantic type, so that nothing says what it counts."""
        return self.name is None and self.kind in {"int32", "int64"}

    @property
    def is_structured(self) -> bool:
        return self.kind == "struct" and self.meaning is not None

    def of_unstated(self, sql: SqlType) -> Field:
        """Returns the field for a column whose type the feed does not state.

        A whole number without a semantic type is then not taken for a time.
        """
        is_number = self.name is None and self.kind in _WHOLE and sql.base in _HOLDS
        return self._replace(name=f"{self.kind} without a semantic type") if is_number else self

    def __str__(self) -> str:
        return self.name or self.kind


# One per column, None if the block does not have the column.
Fields = tuple[Field | None, ...]


def row_fields(block: object) -> Iterable[Mapping[str, Any]]:
    """Returns the row's fields from the envelope's schema; `before` and `after` have the same fields."""
    if not isinstance(block, dict):
        return []
    for part in block.get("fields", []):
        if part.get("field") in {"after", "before"}:
            return list(part.get("fields", []))
    return []


def unit(sql: SqlType, source: DebeziumSource, field: Field | None) -> int | None:
    """Returns the unit of a column's counts (a second has 10**unit), or None if it has no counts."""
    if field is not None and field.meaning is not None:
        return field.meaning[1]
    is_count = field is None or field.kind in _WHOLE
    return _unit_of(sql, source.time_precision_mode) if is_count else None


def _unit_of(sql: SqlType, mode: TimePrecision) -> int | None:
    if mode in {"isostring", "structured"} or sql.base == "datetimeoffset":
        return None
    if sql.base == "date":
        return _DAYS
    if mode in _UNITS:
        return _UNITS[mode]
    digits = 6 if mode == "adaptive_time_microseconds" and sql.base == "time" else sql.fraction_digits
    return 3 if digits <= 3 else 6 if digits <= 6 else 9


def contradiction(sql: SqlType, source: DebeziumSource, field: Field | None) -> str | None:
    """Returns how the block's `field` contradicts the column's type or a setting, or None."""
    if field is None:
        return None
    if sql.base in _HOLDS:
        return _of_time(sql, source, field)
    if sql.spark.startswith("decimal"):
        return _of_decimal(field)
    if sql.spark == "binary":
        return _of_binary(source, field)
    if sql.spark == "string":
        fits = field.kind == "string" or not (_means_otherwise(field) or field.kind in _WITHOUT_TEXT)
    else:
        fits = field.kind in _NUMBERS.get(sql.spark, _WHOLE_NUMBERS) and not _means_otherwise(field)
    return None if fits else _other_type(field)


# Types whose values do not have one text: a fraction has several, bytes have none, and a bit is `true` in
# JSON and 1 in SQL Server.
_WITHOUT_TEXT = frozenset({*_SINGLE, *_DOUBLE, "boolean", "bytes"})
# Types whose values are read as whole numbers; a value whose text is no whole number does not fit.
_WHOLE_NUMBERS = frozenset({*_WHOLE, *_SINGLE, *_DOUBLE, "boolean", "string"})
# Types whose values a floating point column holds without rounding.
_NUMBERS = {
    "float": frozenset({"int8", "int16"}) | _SINGLE,
    "double": frozenset({"int8", "int16", "int32"}) | _SINGLE | _DOUBLE,
}


def _means_otherwise(field: Field) -> bool:
    """Returns whether the value stands for something else: a moment, or a number with decimal places."""
    return field.name == DECIMAL or field.meaning is not None


def _other_type(field: Field) -> str:
    return f"the schema block says {field}: state the column's type as the source has it"


def _set(field: Field, setting: str, value: str) -> str:
    return (
        f"the schema block says {field}, but the feed says {setting}: {value}; set {setting} in the "
        "feed's `source:` as in the connector"
    )


def _of_time(sql: SqlType, source: DebeziumSource, field: Field) -> str | None:
    if field.meaning is not None:
        return None if field.meaning[0] == _HOLDS[sql.base] else _other_type(field)
    if field.name is not None or field.kind not in {*_WHOLE, "string", "struct"}:
        return _other_type(field)
    if field.kind not in _WHOLE:
        # Text and objects are self-describing.
        return None
    if sql.base == "datetimeoffset":
        return _other_type(field)
    counted = _unit_of(sql, source.time_precision_mode)
    is_narrow = sql.base == "date" or (sql.base == "time" and counted == 3)
    if counted is not None and field.kind == ("int32" if is_narrow else "int64"):
        return None
    return _set(field, "time.precision.mode", source.time_precision_mode)


def _of_decimal(field: Field) -> str | None:
    if field.name == DECIMAL and field.kind != "bytes":
        return f"the schema block has {field} with the type {field.kind}, but Connect writes it as bytes"
    if field.name == DECIMAL:
        return None if field.scale is not None else f"the schema block has {field} without a numeric scale"
    is_number = field.kind in {*_WHOLE, *_DOUBLE, "string"} and field.meaning is None
    return None if is_number else _other_type(field)


def _of_binary(source: DebeziumSource, field: Field) -> str | None:
    """Objects (spatial values) are no contradiction here, but no value of theirs fits."""
    if _means_otherwise(field):
        return _other_type(field)
    if field.kind == "string" and source.binary_handling_mode == "bytes":
        return _set(field, "binary.handling.mode", "bytes")
    return None if field.kind in {*_OBJECTS, "string", "bytes"} else _other_type(field)
