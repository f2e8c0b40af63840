"""States of a lake that are built once and copied for each test that goes on from them.

The lake's files are never changed once written, so a copy is one of two small databases (`State`).
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
    """A session whose lake is that of the settings: each session has catalogs of its own."""
    session = spark.newSession()
    for key, value in spark_conf(settings).items():
        if key.startswith("spark.sql.catalog.lake."):
            session.conf.set(key, value)
    return session


def lake_of(spark: SparkSession, state: State, files: Path, patch: pytest.MonkeyPatch) -> SparkSession:
    """The state is the installation while `patch` lasts; `files`: of the tables of all its copies."""
    patch.setenv("CHANGELEDGER_HOME", str(state.folder))
    patch.setenv("CHANGELEDGER_CATALOG", json.dumps({"warehouse": str(files)}))
    return session_of(spark, Settings())
