"""Reads decimals with more digits than Spark's as text.

PostgreSQL's `numeric` without a precision may have any number of digits, and Spark reads it as
decimal(38,18). A `numeric` of more than 38 digits it reads with fewer decimal places. In both cases Spark
rounds silently.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pyspark.sql.types import DecimalType, StructType
from sqlalchemy import Select, String, cast, select


def rounded(schema: StructType) -> frozenset[str]:
    """Returns the decimals that Spark would read with another scale than JDBC states."""
    return frozenset(
        field.name
        for field in schema
        if isinstance(field.dataType, DecimalType)
        and field.metadata.get("scale", field.dataType.scale) != field.dataType.scale
    )


def printed(query: Select[Any], names: Collection[str]) -> Select[Any]:
    """Returns the SELECT with these columns as text."""
    asked = query.subquery("asked")
    return select(*(cast(c, String()).label(c.name) if c.name in names else c for c in asked.c))
