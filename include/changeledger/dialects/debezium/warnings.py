"""Warnings about readable messages whose values may differ from the source's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from changeledger.config.feed import Feed
from changeledger.dialects.debezium.avro import CONNECT_NAME, AvroSchema
from changeledger.dialects.debezium.avro import block as block_of
from changeledger.dialects.debezium.field_types import BROKEN, read_field, source_type
from changeledger.dialects.debezium.fields import Field, row_fields
from changeledger.dialects.debezium.schema_block import Described
from changeledger.dialects.debezium.times import TEMPORAL
from changeledger.kernels import avro
from changeledger.model.column_names import shown
from changeledger.model.errors import ContractError
from changeledger.model.sql_type import SqlType

_DOUBLES = {"double", "float64"}
# Names of the units of a count.
_UNITS = {3: "milliseconds", 6: "microseconds"}
# Settings of the converters to JSON and to Avro that make them write NULL.
_JSON_SETTING = "replace.null.with.default=false"
_AVRO_SETTING = "ignore.default.for.nullables=true"
_MOST_SHOWN, _LONGEST_DEFAULT = 5, 40


def of_altered(messages: Iterable[Described]) -> list[str]:
    """Returns a warning for each table with columns whose values the connector is set to alter.

    Such values are stored as sent, except in keys. Three things alter values:

    * Masking and cutting (parameters `masked` and `truncateLength` of `MaskStrings` and `TruncateColumn`).
    * `decimal.handling.mode: double`, and times with fewer digits than the column has, as the source's type
      shows (`column.propagate.source.type`; Debezium's page on SQL Server).
    * A custom converter, which may write a time in its own format. The connector itself gives every time a
      semantic type (oryanmoshe/debezium-timestamp-converter#19, #28).
    """
    seen: dict[str, dict[str, str]] = {}
    latest: dict[str, object] = {}
    for table, block, _ in messages:
        # Hundreds of samples can have the same block, which is read once. An absent block is skipped.
        if latest.get(table) == block:
            continue
        latest[table] = block
        try:
            altered = {str(f["field"]): how for f in row_fields(block) if (how := _altered(f)) is not None}
        except BROKEN:
            continue
        if altered:
            seen.setdefault(table, {}).update(altered)
    return [
        f"{table}: values differ from the source because the connector is set to alter them: "
        + ", ".join(f"{shown([name])} {how}" for name, how in altered.items())
        for table, altered in seen.items()
    ]


def _altered(field: Mapping[str, Any]) -> str | None:
    """Returns how the connector alters a column's values by the block, or None if it does not say so."""
    written = read_field(field)
    return written.altered or _lost_digits(written, field.get("parameters") or {})


def _lost_digits(written: Field, parameters: Mapping[str, Any]) -> str | None:
    try:
        source = SqlType.parse(source_type(parameters) or "")
    except ContractError:
        return None
    if source.spark.startswith("decimal") and written.kind in _DOUBLES:
        return "keeps 15 digits of a decimal (decimal.handling.mode)"
    if source.base in {*TEMPORAL, "datetimeoffset"} and written.meaning is None:
        return f"is a {source.base} in the format of a custom converter (converters)"
    unit = written.meaning and written.meaning[1]
    is_shorter = source.base in {"time", "datetime2"} and unit in _UNITS and source.fraction_digits > unit
    return f"is counted in {_UNITS[unit or 0]} (time.precision.mode)" if is_shorter else None


def of_defaults(messages: Iterable[Described], *, in_avro: bool = False) -> list[str]:
    """Returns a warning for each table with columns whose NULL the converter may have written as DEFAULT.

    Such a column is optional and has a default in the block. Connect's converters write the default for NULL
    unless they are told not to (KAFKA-8713, confluentinc/schema-registry#2314). A NULL in such a column of a
    message shows that the converter writes NULL, so there is no warning.
    """
    setting = _AVRO_SETTING if in_avro else _JSON_SETTING
    # For each table the defaults of its columns, and the sampled rows.
    seen: dict[str, tuple[dict[str, Any], list[Mapping[str, Any]]]] = {}
    for table, block, payload in messages:
        try:
            in_block = {
                str(f["field"]): f["default"]
                for f in row_fields(block)
                if f.get("optional") and f.get("default") is not None
            }
        except BROKEN:
            continue
        if in_block:
            defaults, rows = seen.setdefault(table, ({}, []))
            defaults |= in_block
            rows += [row for side in ("before", "after") if isinstance(row := payload.get(side), dict)]
    return [
        f"{table}: a NULL in {_shown(defaults)} may arrive as the column's DEFAULT, which the converter "
        f"writes for NULL unless the connector sets value.converter.{setting}"
        for table, (defaults, rows) in seen.items()
        if not any(name in row and row[name] is None for row in rows for name in defaults)
    ]


def of_unnamed(
    read: Mapping[tuple[str, str, str], AvroSchema], schemas: Mapping[str, str], feed: Feed
) -> list[str]:
    """Returns a warning for each table whose Avro schema does not tell times from numbers.

    Connect's converter writes the name of every schema, and a connector names every event. The names are
    missing only if the converter is set to leave them out (`connect.meta.data`, Confluent's page on the Avro
    converter).
    """
    numbers: dict[str, dict[str, None]] = {}
    for (_, schema_id, _), schema in read.items():
        config = None if schema.table is None else feed.table(schema.table)
        root = avro.schema(schemas[schema_id]).root if config else None
        if config is None or root is None or root.properties.get(CONNECT_NAME):
            continue
        known = {c.name.lower() for c in config.stated}
        known |= set() if schema.columns is None else {c.name.lower() for c in schema.columns.key}
        names = [str(f["field"]) for f in row_fields(block_of(root)) if read_field(f).is_bare_number]
        some = dict.fromkeys(name for name in names if name.lower() not in known)
        if some:
            numbers.setdefault(config.table, {}).update(some)
    return [
        f"{table}: its Avro schema lacks Connect's names, so times look like numbers: state the types "
        f"of {shown(names)} in `columns:`, or set value.converter.connect.meta.data=true"
        for table, names in numbers.items()
    ]


def _shown(defaults: Mapping[str, Any]) -> str:
    some = [f"{shown([name])} ({_text(value)})" for name, value in list(defaults.items())[:_MOST_SHOWN]]
    rest = len(defaults) - len(some)
    return f"{', '.join(some)}{f' and {rest} more columns' if rest else ''}"


def _text(default: Any) -> str:
    text = json.dumps(default, ensure_ascii=False, default=repr)
    return text if len(text) <= _LONGEST_DEFAULT else f"{text[:_LONGEST_DEFAULT]}..."
