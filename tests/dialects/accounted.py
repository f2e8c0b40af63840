"""Decodes a batch and checks that each message has exactly one result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from changeledger.config.feed import Feed
from changeledger.kernels.arrow import MESSAGE
from sourcelab.messages import Message
from tests.dialects.windows import feed

Decoded = Callable[[pa.RecordBatch, Feed, dict[str, Any]], Iterable[pa.RecordBatch]]


def results(
    decoded: Decoded, dialect: str, values: Sequence[Message], tables: Sequence[str]
) -> dict[int, dict[str, Any]]:
    """Results by offset. A message's offset is its index in `values`."""
    of = feed(dialect, *({"table": name} for name in tables))
    rows = [
        {"topic": m.topic, "partition": 0, "offset": at, "timestamp": None, "headers": []}
        | {"key": m.key, "value": m.value}
        for at, m in enumerate(values)
    ]
    by_offset = {}
    for batch in decoded(pa.RecordBatch.from_pylist(rows, MESSAGE), of, {}):
        batch.validate(full=True)
        for row in batch.to_pylist():
            assert row["source_position"]["offset"] not in by_offset, "a record has one outcome"
            by_offset[row["source_position"]["offset"]] = row
    return by_offset
