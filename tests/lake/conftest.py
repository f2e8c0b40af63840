"""A table for tests of one module, which names it `TABLE`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from changeledger.kernels.arrow import table_schema
from changeledger.lake import catalog, new_tables


@pytest.fixture
def table(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """Of an id and a text, empty."""
    name: str = request.module.TABLE
    catalog.create_namespace(name.split(".")[1])
    new_tables.create(name, table_schema([("id", "int"), ("what", "string")]))
    yield name
    spark.sql(f"DROP TABLE {name}")
