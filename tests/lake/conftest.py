"""A table for the tests of a module, which states its name as `TABLE`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from changeledger.kernels.arrow import table_schema
from changeledger.lake import new_tables


@pytest.fixture
def table(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty table with an id and a text."""
    name: str = request.module.TABLE
    new_tables.create(name, table_schema([("id", "int"), ("what", "string")]))
    yield name
    spark.sql(f"DROP TABLE {name}")
