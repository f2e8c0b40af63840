"""Confluent's framing of Avro messages: a zero byte, the id of the writer's schema in four, the record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any, NamedTuple

import fastavro
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger.dialects.avro import Node, Schema

_BYTES = 5


class Framed(NamedTuple):
    """The messages of one topic that name one schema: their number, and the first and the last of them."""

    topic: str
    schema_id: str
    examples: tuple[tuple[bytes | None, bytes], ...]

    @property
    def frame(self) -> bytes:
        return b"\0" + int(self.schema_id).to_bytes(_BYTES - 1, "big")

    def is_one(self) -> Column:
        """Is a message of a raw table one of these?"""
        return F.coalesce(
            (F.col("topic") == self.topic) & F.col("value").startswith(F.lit(self.frame)), F.lit(False)
        )


def is_framed() -> Column:
    """No JSON begins with a zero byte: the lake's own statistics of `value` answer for whole files of it."""
    value = F.col("value")
    return F.coalesce((value < F.lit(b"\1")) & (F.octet_length(value) >= _BYTES), F.lit(False))


def record() -> Column:
    """The bytes behind the frame."""
    return F.expr(f"substring(value, {_BYTES + 1})")


def framed(raw: DataFrame) -> list[Framed]:
    """What of the messages is framed, by topic and schema; empty where all is JSON."""
    place = F.struct("offset", "partition")
    message = F.struct("key", "value")
    rows = (
        raw.where((F.col("value") < F.lit(b"\1")) & (F.octet_length("value") >= _BYTES))
        .groupBy("topic", F.substring("value", 1, _BYTES).alias("frame"))
        .agg(F.array(F.min_by(message, place), F.max_by(message, place)).alias("ends"))
        .collect()
    )
    found = [
        Framed(
            row["topic"],
            str(int.from_bytes(row["frame"][1:], "big")),
            tuple((one["key"] and bytes(one["key"]), bytes(one["value"])) for one in row["ends"]),
        )
        for row in rows
    ]
    return sorted(found, key=lambda one: one[:2])


def schema_ids(raw: DataFrame) -> set[str]:
    """The schemas that the messages name, and those that their keys do."""
    return {schema_id for one in framed(raw) for schema_id in (one.schema_id, *key_ids(one))}


def key_ids(one: Framed) -> Iterator[str]:
    for key, _ in one.examples:
        if key is not None and len(key) >= _BYTES and key[0] == 0:
            yield str(int.from_bytes(key[1:_BYTES], "big"))


def example(value: bytes, schema: Schema) -> Mapping[str, Any] | None:
    """One framed record read on the driver, for what it tells of its table; None where it is broken."""
    try:
        told = fastavro.schemaless_reader(BytesIO(value[_BYTES:]), schema.plain, None)
        named: dict[str, Any] = _by_name(told, schema.root)
        return named
    except Exception:  # noqa: BLE001 - whatever broken bytes lead to: they teach nothing
        return None


def _by_name(value: Any, node: Node) -> Any:
    if not isinstance(value, dict) or node.kind != "record":
        return value
    return {name: _by_name(value[f"f{at}"], inner) for at, (name, inner) in enumerate(node.fields.items())}
