"""Avro without frames, as the writers of it write records."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

import fastavro


def record(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a record; `fields`: their types by their names."""
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def written(schema: Any, value: Any) -> bytes:
    """`schema` may be a parsed one."""
    body = BytesIO()
    fastavro.schemaless_writer(body, schema, value)
    return body.getvalue()
