"""Columns whose NULL may have become their DEFAULT before it was written: no message shows that.

The block has such a column as optional, with a default, and Connect's converters write the default for NULL
unless they are told not to (KAFKA-8713, confluentinc/schema-registry#2314). A NULL that stands in a message
is a NULL, and shows that its converter writes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from changeledger.dialects.debezium.fields import row_fields
from changeledger.dialects.debezium.schema_block import BROKEN, Described
from changeledger.model.column_names import shown

# Of the converters to JSON and to Avro, what has NULL written.
JSON_SETTING = "replace.null.with.default=false"
AVRO_SETTING = "ignore.default.for.nullables=true"
_MOST_SHOWN, _LONGEST_DEFAULT = 5, 40


def warnings(messages: Iterable[Described], setting: str) -> list[str]:
    """One for each table. `setting`: of the converter that writes the messages."""
    # By table: the defaults of its columns, and the rows of messages that have them.
    seen: dict[str, tuple[dict[str, Any], list[Mapping[str, Any]]]] = {}
    for table, block, payload in messages:
        try:
            in_block = {str(f["field"]): f["default"] for f in row_fields(block) if _can_hide_null(f)}
        except BROKEN:
            continue
        if in_block:
            defaults, rows = seen.setdefault(table, ({}, []))
            defaults |= in_block
            rows += [row for side in ("before", "after") if isinstance(row := payload.get(side), dict)]
    return [
        f"{table}: a NULL in {_shown(defaults)} may come as the column's DEFAULT, which the converter writes "
        f"for NULL unless the connector has value.converter.{setting}"
        for table, (defaults, rows) in seen.items()
        if not any(name in row and row[name] is None for row in rows for name in defaults)
    ]


def _can_hide_null(field: Mapping[str, Any]) -> bool:
    return bool(field.get("optional")) and field.get("default") is not None


def _shown(defaults: Mapping[str, Any]) -> str:
    some = [f"{shown([name])} ({_text(value)})" for name, value in list(defaults.items())[:_MOST_SHOWN]]
    rest = len(defaults) - len(some)
    return f"{', '.join(some)}{f' and {rest} more columns' if rest else ''}"


def _text(default: Any) -> str:
    text = json.dumps(default, ensure_ascii=False, default=repr)
    return text if len(text) <= _LONGEST_DEFAULT else f"{text[:_LONGEST_DEFAULT]}..."
