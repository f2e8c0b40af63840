"""Avro records without a frame, as their writers encode them."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

import fastavro


def record(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the schema of a record. `fields`: types by name."""
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def written(schema: Any, value: Any) -> bytes:
    """Encodes a value. `schema` may be parsed already."""
    body = BytesIO()
    fastavro.schemaless_writer(body, schema, value)
    return body.getvalue()
