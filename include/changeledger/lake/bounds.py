"""Conditions in Spark SQL by which Iceberg passes over files, from the ends of what is looked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.model.change import literal, quoted

# NaN stands between no two values.
FLOATS: Final = frozenset({"float", "double"})


def between(keys: pa.Table, columns: Sequence[tuple[str, str]]) -> list[str]:
    """For each of the `columns` (name, Spark type) of the keys: does a row stand between their ends?

    A list of values or a join passes over no file: of a list of more than 200 values Iceberg looks at none.
    Nothing is said of a column without a value, of bytes, and of floating-point numbers.
    """
    conditions = []
    for name, kind in columns:
        if kind in FLOATS or pa.types.is_binary(keys.schema.field(name).type):
            continue
        ends = pc.min_max(keys.column(name)).as_py()
        if ends["min"] is not None:
            least, greatest = (sql_literal(ends[end], kind) for end in ("min", "max"))
            conditions.append(f"{quoted(name)} BETWEEN {least} AND {greatest}")
    return conditions


def sql_literal(value: object, kind: str) -> str:
    """The value in Spark SQL, of that Spark type."""
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return f"CAST({literal(str(value))} AS {kind})"
