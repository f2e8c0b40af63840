"""A feed whose connector takes every row out of its envelope: the run stops and says what to switch off."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeledger.model.errors import AuditFailed
from sourcelab.messages import Message
from sourcelab.services import KafkaBroker
from tests.integration.line import carry, debezium_feed

pytestmark = pytest.mark.integration


def sent(topic: str, key: Any, value: Any) -> Message:
    return Message(topic, json.dumps(key).encode(), value and json.dumps(value).encode(), (), 10**12)


def test_a_run_of_flattened_rows(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = debezium_feed("flattened", kafka, "flattened", monkeypatch, quarantine_limit=0.1)
    rows = [
        ("dbo.parts", {"id": 1, "qty": 2, "__op": "c"}),
        ("dbo.wide", {"id": 1, "ddl": "alter table x", "databaseName": "a"}),
        ("dbo.customers", {"id": 1, "status": "BEGIN"}),
        ("dbo.customers", None),
    ]
    messages = [sent(f"flattened.shop.{table}", {"id": 1}, row) for table, row in rows]
    messages.append(sent("__debezium-heartbeat.flattened", {"serverName": "flattened"}, {"ts_ms": 10**12}))
    with pytest.raises(AuditFailed, match=r"Nothing of the run could be read: flattened_event\.") as error:
        carry(spark, kafka, feed, messages)
    assert "quarantine_limit: 3 violations" in str(error.value)
    assert "Switch off what removed it: the transform ExtractNewRecordState" in str(error.value)
