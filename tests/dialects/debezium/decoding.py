"""Feeds and messages of Debezium for tests of its kernel, and its decoder of single records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from changeledger.config.feed import Feed
from changeledger.dialects.debezium import typed
from changeledger.dialects.debezium.decode import decode
from changeledger.dialects.debezium.events import schema
from changeledger.dialects.debezium.plan import TablePlan
from changeledger.kernels.arrow import MESSAGE, empty
from tests.dialects.debezium.written import field

KEY = {"type": "int32", "optional": False, "field": "id"}
SOURCE = {
    "connector": "sqlserver", "db": "d", "schema": "dbo", "table": "t", "ts_ms": 1786119900883,
    "commit_lsn": "0000002a:000003b0:0005", "change_lsn": "0000002a:000003b0:0003",
}  # fmt: skip


def feed(*tables: dict[str, Any], **source: Any) -> Feed:
    """Returns a feed of these tables, or of `dbo.t`. `source`: settings of the connector."""
    return Feed.model_validate(
        {
            "feed": "f", "dialect": "debezium", "database": "d", "connection": "none",
            "source": {"topics": ["*"], **source}, "tables": tables or [{"table": "dbo.t"}],
        }
    )  # fmt: skip


def event(op: str, before: Any, after: Any, **source: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "source": {**SOURCE, **source}, "op": op}


def block(*fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the schema block of events of `dbo.t`, whose rows have `KEY` and these fields.

    The structs have names, as Connect's Avro converter needs them.
    """
    row = {"type": "struct", "name": "s.dbo.t.Value", "optional": True, "fields": [KEY, *fields]}
    kinds = {name: "int64" if name == "ts_ms" else "string" for name in SOURCE}
    of_source = [{**field(kind), "field": name} for name, kind in kinds.items()]
    members = [
        *({**row, "field": side} for side in ("before", "after")),
        {"type": "struct", "name": "s.Source", "field": "source", "fields": of_source},
        {**field("string"), "field": "op"},
    ]
    return {"type": "struct", "name": "s.dbo.t.Envelope", "fields": members}


def batch(values: Iterable[bytes | None], topic: str = "t", key: bytes | None = None) -> pa.RecordBatch:
    """Returns messages of one partition, with offsets from 0."""
    place = {"topic": topic, "partition": 0, "timestamp": None, "key": key, "headers": []}
    rows = [{**place, "offset": at, "value": value} for at, value in enumerate(values)]
    return pa.RecordBatch.from_pylist(rows, MESSAGE)


def _nothing(
    _values: Sequence[bytes | None], rows: Sequence[int], plan: TablePlan
) -> tuple[pa.RecordBatch, Sequence[int]]:
    return empty(schema(plan.writer_schema)), rows


def only_one_by_one(patch: pytest.MonkeyPatch) -> None:
    """Bypasses the vectorised path."""
    patch.setattr(typed, "read", _nothing)


def one_by_one(raw: pa.RecordBatch, how: TablePlan) -> pa.RecordBatch:
    """Decodes record by record."""
    with pytest.MonkeyPatch.context() as patch:
        only_one_by_one(patch)
        return decode(raw, how)
