"""A NULL that may have come as the column's DEFAULT is logged by the run that reads it."""

from __future__ import annotations

import logging

import pytest
from pyspark.sql import SparkSession

from changeledger.stages import extract, normalize
from sourcelab.messages import produce
from sourcelab.services import KafkaBroker
from tests.dialects.debezium.test_defaults import WITH_DEFAULT, message
from tests.integration.line import debezium_feed, run, window

pytestmark = pytest.mark.integration


def test_the_log_warns_of_a_default(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    feed = debezium_feed("defaults", kafka, "defaults", monkeypatch, tables=[{"table": "dbo.t"}])
    written = message({"id": 1, "qty": 1234}, WITH_DEFAULT)._replace(topic="defaults.dbo.t")
    produce(kafka.bootstrap, [written], partitions=1)
    with caplog.at_level(logging.WARNING, "changeledger"):
        run(spark, feed, window(), (extract, normalize))
    assert "defaults: dbo.t: a NULL in qty (1234) may arrive as the column's DEFAULT" in caplog.text
