"""Decimals of a database with more digits than Spark's, on their way into Spark: as text.

PostgreSQL's `numeric` without a precision may have any number of digits, and Spark reads it as
decimal(38,18); one of more than 38 digits it reads with fewer places. Either way it rounds each value without
a word.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pyspark.sql.types import DecimalType, StructType
from sqlalchemy import Select, String, cast, select


def rounded(schema: StructType) -> frozenset[str]:
    """The decimals that Spark would read with other places than JDBC says they have."""
    return frozenset(
        field.name
        for field in schema
        if isinstance(field.dataType, DecimalType)
        and field.metadata.get("scale", field.dataType.scale) != field.dataType.scale
    )


def printed(query: Select[Any], names: Collection[str]) -> Select[Any]:
    """The rows of the SELECT with these columns as text."""
    asked = query.subquery("asked")
    return select(*(cast(c, String()).label(c.name) if c.name in names else c for c in asked.c))
