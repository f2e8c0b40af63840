"""States of a lake that are built once, and copied for each test that continues from them.

The lake's files never change once written, so a copy only needs two small databases (`State`).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from changeledger.config.settings import Settings
from changeledger.spark.session import spark_conf
from tests.faults.matrix.lab import State


def session_of(spark: SparkSession, settings: Settings) -> SparkSession:
    """Returns a session on the lake of the settings: each session has its own catalogs."""
    session = spark.newSession()
    for key, value in spark_conf(settings).items():
        if key.startswith("spark.sql.catalog.lake."):
            session.conf.set(key, value)
    return session


def lake_of(spark: SparkSession, state: State, files: Path, patch: pytest.MonkeyPatch) -> SparkSession:
    """Makes the state the installation while `patch` lasts. `files`: the table files of all its copies."""
    patch.setenv("CHANGELEDGER_HOME", str(state.folder))
    patch.setenv("CHANGELEDGER_CATALOG", json.dumps({"warehouse": str(files)}))
    return session_of(spark, Settings())
