"""Debezium's events as Avro's own JSON: printed by a console consumer, or by a sink that kept the unions.

A value of an optional field is wrapped in the name of its branch: `{"long": 5}`, and the row in that of its
record: `{"server1.dbo.t.Value": {...}}`. Bytes are text of one character a byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from changeledger.change import literal
from changeledger.contract import Contract

# A column of the records whose topic writes so.
UNIONS = "unions"
_ROW = ".Value"
_BRANCHES = ("string", "bytes", "int", "long", "float", "double", "boolean")
_MAP = "MAP<STRING, STRING>"


def row_of(image: Any) -> Mapping[str, Any] | None:
    """The members inside a wrapped row; None where it is not wrapped."""
    if not isinstance(image, dict) or len(image) != 1:
        return None
    ((name, row),) = image.items()
    return row if name.endswith(_ROW) and isinstance(row, dict) else None


def is_wrapped(payload: Mapping[str, Any]) -> bool:
    return any(row_of(payload.get(side)) is not None for side in ("before", "after"))


def unwrapped(parsed: DataFrame, contract: Contract) -> DataFrame:
    """`before`, `after`, `source` and `ts_ms` without the names of branches, bytes as base64.

    The text in a column that cannot be NULL is not looked into: it is not wrapped, whatever it looks like.
    """
    required = [c for c in contract.columns if not c.nullable or c.key_position]
    in_bytes = [c.name for c in required if c.spark_type == "binary" or c.spark_type.startswith("decimal")]
    plain, binary = (_array(names) for names in ([c.name for c in required], in_bytes))
    cell = (
        f"CASE WHEN array_contains({binary}, name) THEN {_base64('told')}"
        f" WHEN array_contains({plain}, name) THEN told ELSE {_branch('told')} END"
    )
    members = ", ".join(
        f"{literal(name)}, {_branch(f'source.`{name}`')}" for name in parsed.select("source.*").columns
    )
    source = F.expr(f"CASE WHEN source IS NOT NULL THEN named_struct({members}) END")
    rows = {
        side: F.expr(
            f"CASE WHEN size({side}) = 1 AND endswith(map_keys({side})[0], '{_ROW}')"
            f" THEN transform_values(from_json(map_values({side})[0], '{_MAP}'), (name, told) -> {cell})"
            f" ELSE {side} END"
        )
        for side in ("before", "after")
    }
    return parsed.withColumns({"source": source, "ts_ms": F.expr(_branch("ts_ms")), **rows})


def _array(names: list[str]) -> str:
    return f"CAST(array({', '.join(map(literal, names))}) AS ARRAY<STRING>)"


def _branch(told: str) -> str:
    """SQL text of what is inside a wrapped value; of one that is not, the value."""
    inside = f"from_json({told}, '{_MAP}')"
    of_branch = " ".join(
        f"WHEN {literal(name)} THEN {_base64('held.value') if name == 'bytes' else 'held.value'}"
        for name in _BRANCHES
    )
    # A lambda, so that the value is parsed once.
    entries = f"transform(map_entries({inside}), held -> CASE held.key {of_branch} ELSE {told} END)"
    return f"CASE WHEN startswith({told}, '{{') THEN coalesce(get({entries}, 0), {told}) ELSE {told} END"


def _base64(text: str) -> str:
    """Where the text has no other characters than those of bytes."""
    return (
        f"CASE WHEN {text} RLIKE '^[\\\\x00-\\\\xFF]*\\\\z' THEN base64(encode({text}, 'ISO-8859-1'))"
        f" ELSE {text} END"
    )
