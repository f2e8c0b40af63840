"""Which columns of a table are read, as Iceberg names them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import StructType


def selected(schema: pa.Schema, there: Schema) -> Iterator[str]:
    """Of a struct with some of its fields only, each of these."""
    for field in schema:
        whole = there.find_type(field.name)
        if isinstance(whole, StructType) and field.type.num_fields < len(whole.fields):
            yield from (f"{field.name}.{one.name}" for one in field.type)
        else:
            yield field.name
