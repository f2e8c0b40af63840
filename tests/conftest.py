"""One Spark session for all tests, with a lake in a temporary folder."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Callable, Generator, Iterator
from copy import copy
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings as of_hypothesis

import tests
from changeledger.config.settings import Settings
from changeledger.console.process import reach_directly
from sourcelab.services import KafkaBroker, Postgres
from sourcelab.standalone import python_of_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.one_release import OneRelease

# The functions under test answer in milliseconds, but not on a busy machine.
of_hypothesis.register_profile("patient", deadline=None)
of_hypothesis.load_profile("patient")

# The columns of a raw message that a dialect's discovery reads.
MESSAGE = (
    "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>"
)
TESTS = Path(__file__).resolve().parent
JARS = TESTS.parent / ".jars" / "spark"
# The files that take longest, the longest first: one that began last would run alone at the end.
LONGEST = (
    "integration/test_up.py",
    "integration/test_cluster.py",
    "integration/test_connect.py",
    "faults/test_matrix.py",
    "integration/test_replay.py",
    "integration/test_quiet_tables.py",
    "integration/test_dialect_equivalence.py",
    "integration/test_erase.py",
    "integration/test_erase_left_out.py",
    "integration/test_own_airflow.py",
    "faults/test_rollback.py",
    "integration/test_avro.py",
    "integration/test_maintain.py",
    "stages/test_compare_stage.py",
    "integration/test_remote_lake.py",
    "integration/test_requests.py",
    "faults/test_shapes.py",
    "faults/test_reset.py",
    "integration/test_verify.py",
)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Freezes the modules that collection imports.

    They all stay loaded: searching them for garbage took a third of the time of collection, and half a second
    at each later search.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {TESTS / name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Sets the tests' own installation, so that nothing is written into the project's."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHANGELEDGER_HOME", str(folder))
        patch.setenv("CHANGELEDGER_JARS", os.environ.get("CHANGELEDGER_JARS") or str(JARS))
        patch.delenv("SPARK_REMOTE", raising=False)
        reach_directly()
        yield folder


@pytest.fixture(autouse=True)
def logs() -> Iterator[None]:
    """Enables logs again, which a command called in this process disables."""
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="session")
def spark(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The product's own session (ANSI, UTC, the catalog `lake`), on two cores and tuned for small data.

    Its workers have the same packages as a cluster's workers, and no others.
    """
    # Takes seconds to import, so tests without Spark do not.
    from pyspark import cloudpickle  # noqa: PLC0415

    from changeledger.spark import session  # noqa: PLC0415

    def small(settings: Settings) -> dict[str, str]:
        # A heap of full size from the start: a growing heap is collected a dozen times more.
        room = "-Xms1200m"
        options = [session.SMALL_DATA_JVM, session.FOR_MINUTES_JVM, room, *session.class_archive(settings)]
        return {
            **usual(settings),
            # Otherwise preparing queries would take most of the tests' time.
            **session.SMALL_DATA,
            "spark.driver.extraJavaOptions": " ".join(options),
            "spark.master": "local[2]",
            "spark.driver.memory": "2g",
            "spark.executorEnv.PYTHONPATH": str(TESTS.parent / "include"),
        }

    usual = session.local_conf
    # Kernels of the tests' own modules are pickled by value: workers cannot import what those modules import.
    cloudpickle.register_pickle_by_value(tests)  # type: ignore[no-untyped-call]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "local_conf", small)
        python = python_of_workers(tmp_path_factory.mktemp("workers") / "python")
        patch.setenv("PYSPARK_PYTHON", str(python))
        built = session.spark_session("changeledger tests")
    yield built
    built.stop()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker for all tests of this process. Each test uses its own topics."""
    with KafkaBroker(JARS.with_name("kafka"), tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def new_database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Postgres]]:
    """Creates empty databases on one server for all tests of this process."""
    numbers = count(1)
    with Postgres(tmp_path_factory.mktemp("postgres")) as server:

        def new() -> Postgres:
            shop = copy(server)
            shop.database = f"shop_{next(numbers)}"
            server.create_database(shop.database)
            return shop

        yield new


@pytest.fixture(scope="session")
def one_release(
    spark: SparkSession, new_database: Callable[[], Postgres], tmp_path_factory: pytest.TempPathFactory
) -> OneRelease:
    """A lake with one release of one table, which no test changes: each continues from a copy."""
    from tests.one_release import OneRelease  # noqa: PLC0415

    return OneRelease.of_customers(spark, new_database(), tmp_path_factory.mktemp("one_release"))


@pytest.fixture
def postgres(new_database: Callable[[], Postgres]) -> Postgres:
    """An empty database."""
    return new_database()
