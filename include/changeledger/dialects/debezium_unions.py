"""Avro printed as JSON: a nullable value is told with its type, `{"string": "Ann"}`.

An image is nullable, so it shows whether a message is of this kind: `{"server1.dbo.items.Value": {...}}`.
In such a message bytes are text with a character for each byte.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger.change import literal
from changeledger.config import KafkaSource
from changeledger.contract import Contract

_MAP = "MAP<STRING,STRING>"
_TYPES = "('string', 'int', 'long', 'boolean', 'float', 'double', 'bytes')"
# Of the event's source: what is not there in every event.
_NULLABLE = ("snapshot", "change_lsn", "commit_lsn", "event_serial_no", "lsn")


def unwrapped(parsed: DataFrame, contract: Contract, source: KafkaSource) -> DataFrame:
    """`before`, `after` and `source` as in other messages, bytes in base64."""
    in_bytes = [
        c.name
        for c in contract.columns
        if (c.spark_type.startswith("decimal") and source.decimals == "precise")
        or (c.spark_type == "binary" and source.binaries == "base64")
    ]
    told = F.col("source")
    for name in _NULLABLE:
        told = told.withField(name, F.expr(_member(f"source.{name}")))
    return parsed.withColumns(
        {
            "before": _image("before", in_bytes),
            "after": _image("after", in_bytes),
            "source": F.when(F.col("source").isNotNull(), told),
        }
    )


def _image(side: str, in_bytes: list[str]) -> Column:
    name, row = f"map_keys({side})[0]", f"map_values({side})[0]"
    is_union = f"size({side}) = 1 AND endswith({name}, '.Value') AND startswith({row}, '{{')"
    cell = _member("told")
    if in_bytes:
        cell = f"IF(name IN ({', '.join(map(literal, in_bytes))}), {_base64(cell)}, {cell})"
    cells = f"transform_values(from_json({row}, '{_MAP}'), (name, told) -> {cell})"
    return F.expr(f"CASE WHEN {is_union} THEN {cells} ELSE {side} END")


def _member(told: str) -> str:
    """SQL text: the one value of a union; any other text as it is."""
    union = f"from_json({told}, '{_MAP}')"
    is_union = f"size({union}) = 1 AND map_keys({union})[0] IN {_TYPES}"
    return f"CASE WHEN startswith({told}, '{{\"') AND {is_union} THEN map_values({union})[0] ELSE {told} END"


def _base64(text: str) -> str:
    # Spark would stop at a character that is no byte; as it is, it is no base64 either.
    encoded = f"base64(encode({text}, 'ISO-8859-1'))"
    return f"CASE WHEN {text} RLIKE '^[\\\\x00-\\\\xff]*\\\\z' THEN {encoded} ELSE {text} END"
