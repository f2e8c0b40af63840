"""Columns whose NULL may have become their DEFAULT before it was written: no message shows that.

The block has such a column as optional, with a default, and Connect's converters write the default for NULL
unless they are told not to (KAFKA-8713, confluentinc/schema-registry#2314). A NULL that stands in a message
is a NULL, and shows that its converter writes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from changeledger.dialects.debezium.avro import block
from changeledger.dialects.debezium.fields import row_fields
from changeledger.dialects.debezium.framed import AvroSchema, example
from changeledger.dialects.debezium.schema_block import BROKEN, TableMessage
from changeledger.dialects.messages.samples import Sample
from changeledger.kernels import avro
from changeledger.model.column_names import shown

_JSON = "replace.null.with.default=false"
_AVRO = "ignore.default.for.nullables=true"
_MOST_SHOWN, _LONGEST_DEFAULT = 5, 40

# By table: the defaults of its columns, and the rows of messages that have them.
_Seen = dict[str, tuple[dict[str, Any], list[Mapping[str, Any]]]]


def in_json(messages: Iterable[TableMessage]) -> list[str]:
    """A warning for each table."""
    seen: _Seen = {}
    for of_table in messages:
        _see(seen, of_table.name, of_table.message.get("schema"), of_table.payload)
    return _warnings(seen, _JSON)


def in_avro(
    samples: Mapping[tuple[str, str], Iterable[Sample]],
    read: Mapping[tuple[str, str], AvroSchema],
    schemas: Mapping[str, str],
) -> list[str]:
    """The same of framed messages, which are by topic and schema id."""
    seen: _Seen = {}
    for place, schema in read.items():
        if schema.table is not None:
            writer = avro.schema(schemas[place[1]])
            for sample in samples[place]:
                _see(seen, schema.source_table, block(writer.root), example(sample, writer) or {})
    return _warnings(seen, _AVRO)


def _see(seen: _Seen, table: str, schema_block: object, payload: Mapping[str, Any]) -> None:
    try:
        in_block = {str(f["field"]): f["default"] for f in row_fields(schema_block) if _can_hide_null(f)}
    except BROKEN:
        return
    if in_block:
        defaults, rows = seen.setdefault(table, ({}, []))
        defaults |= in_block
        rows += [row for side in ("before", "after") if isinstance(row := payload.get(side), dict)]


def _can_hide_null(field: Mapping[str, Any]) -> bool:
    return bool(field.get("optional")) and field.get("default") is not None


def _warnings(seen: _Seen, setting: str) -> list[str]:
    return [
        f"{table}: a NULL in {_shown(defaults)} may come as the column's DEFAULT, which the converter writes "
        f"for NULL unless the connector has value.converter.{setting}"
        for table, (defaults, rows) in seen.items()
        if not any(name in row and row[name] is None for row in rows for name in defaults)
    ]


def _shown(defaults: Mapping[str, Any]) -> str:
    some = [f"{shown([name])} ({_text(value)})" for name, value in list(defaults.items())[:_MOST_SHOWN]]
    rest = len(defaults) - len(some)
    return f"{', '.join(some)}{f' and {rest} more columns' if rest else ''}"


def _text(default: Any) -> str:
    text = json.dumps(default, ensure_ascii=False, default=repr)
    return text if len(text) <= _LONGEST_DEFAULT else f"{text[:_LONGEST_DEFAULT]}..."
