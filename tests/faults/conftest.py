"""Fixtures that several modules of faults share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from sourcelab.services import Postgres
from tests.faults.two_releases import TwoReleases


@pytest.fixture(scope="session")
def two_releases(
    spark: SparkSession, new_database: Callable[[], Postgres], tmp_path_factory: pytest.TempPathFactory
) -> TwoReleases:
    return TwoReleases.published(spark, new_database(), tmp_path_factory.mktemp("two_releases"))
