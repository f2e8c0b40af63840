"""Fixtures that several modules of faults share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from sourcelab.services import Postgres
from tests.faults.matrix.job import ALWAYS
from tests.faults.matrix.jobs import Jobs
from tests.faults.two_releases import TwoReleases


@pytest.fixture(scope="session")
def two_releases(
    spark: SparkSession, new_database: Callable[[], Postgres], tmp_path_factory: pytest.TempPathFactory
) -> TwoReleases:
    return TwoReleases.published(spark, new_database(), tmp_path_factory.mktemp("two_releases"))


@pytest.fixture(scope="session")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """Starts jobs that have imported what every stage needs."""
    jobs = Jobs(tmp_path_factory.mktemp("jobs") / "log", ALWAYS)
    yield jobs
    jobs.close()
