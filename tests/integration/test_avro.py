"""Messages in Avro, and windows that cut an event: each table equals that of one window of JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

import pytest
from pyiceberg.table.snapshots import Operation
from pyspark.sql import SparkSession

from changeledger.cli import quarantine
from changeledger.config.feed import Feed
from changeledger.lake import catalog
from changeledger.model.errors import SourceUnavailable
from changeledger.stages import extract, normalize
from changeledger.state.quarantine import Chosen
from sourcelab import ces, ces_avro, debezium, qlik_messages, qlik_messages_avro
from sourcelab.avro_converter import AvroConverter
from sourcelab.log import Log, simulate
from sourcelab.messages import Message, produce
from sourcelab.schema_registry import SchemaRegistry
from sourcelab.services import KafkaBroker
from tests.integration.line import (
    BEGIN,
    carry,
    debezium_feed,
    lake_name,
    message_feed,
    published,
    rows,
    run,
    window,
)

pytestmark = [pytest.mark.integration, pytest.mark.long]

TABLES = ("sales.orders", "dbo.parts")
LOGIN = "reader:s3cret"


def reported(log: Log, prefix: str) -> list[Message]:
    messages = debezium.messages(log, schemas=True, snapshot=False, prefix=prefix)
    return [m for m in messages if m.topic.endswith((*TABLES, prefix))]


def seam(messages: list[Message]) -> int:
    """Returns the place after a delete and its tombstone, before the insert of the same key update."""
    payloads = [{} if m.value is None else json.loads(m.value)["payload"] for m in messages]
    for at in range(2, len(messages)):
        operations = [payload.get("op") for payload in payloads[at - 2 : at + 1]]
        if operations == ["d", None, "c"] and position(payloads[at - 2]) == position(payloads[at]):
            return at
    raise AssertionError("the log has no update of a key")


def position(payload: dict[str, Any]) -> tuple[str, str]:
    return payload["source"]["commit_lsn"], payload["source"]["change_lsn"]


def connect(patch: pytest.MonkeyPatch, feed: Feed, kafka: KafkaBroker, registry: str) -> None:
    extra = {
        "bootstrap.servers": kafka.bootstrap,
        "schema.registry.url": registry,
        "schema.registry.basic.auth.user.info": LOGIN,
        "schema.registry.max.retries": 0,
    }
    patch.setenv(
        f"AIRFLOW_CONN_{feed.connection.upper()}", json.dumps({"conn_type": "kafka", "extra": extra})
    )


def test_debezium_whatever_befalls_the_registry(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = simulate(5, 24)
    tables = [{"table": table} for table in TABLES]
    in_json = debezium_feed("sent_in_json", kafka, "sent_in_json", monkeypatch, tables=tables)
    in_avro = debezium_feed("sent_in_avro", kafka, "sent_in_avro", monkeypatch, tables=tables)
    produce(kafka.bootstrap, reported(log, "sent_in_json"), partitions=1)
    run(spark, in_json, window())

    registry = SchemaRegistry(LOGIN)
    converter = AvroConverter(registry.register)
    # The halves of a key update come in two windows.
    messages = reported(log, "sent_in_avro")
    cut = seam(messages)
    first, last = messages[:cut], messages[cut:]
    produce(kafka.bootstrap, converter.encoded(first), partitions=1)
    with registry:
        connect(monkeypatch, in_avro, kafka, registry.url)
        early = window()
        run(spark, in_avro, early, (extract, normalize))
    # The registry is gone, but its answers are stored.
    run(spark, in_avro, early)

    held: list[str] = []

    def late(subject: str, schema: str) -> int:
        if subject.endswith("-key"):
            return registry.register(subject, schema)
        held.append(schema)
        return 99

    # One message of the second window names a schema that the registry does not know yet.
    lost = next(m for m in reversed(last) if m.value is not None and m.topic.endswith(TABLES))
    others = converter.encoded(m for m in last if m is not lost)
    produce(kafka.bootstrap, [*others, *AvroConverter(late).encoded([lost])], partitions=1)
    later = window(start=early.end)
    with pytest.raises(SourceUnavailable, match=r"schema registry at http://127.0.0.1:\d+ does not answer"):
        run(spark, in_avro, later, (extract,))

    with registry:
        connect(monkeypatch, in_avro, kafka, registry.url)
        run(spark, in_avro, later)
        require_whole_files(in_avro)
        kept = quarantine.records(in_avro, Chosen(), "reason")
        assert [row["reason"] for row in kept] == ["unknown_schema"]

        (registry.schemas["99"],) = held
        assert quarantine.replay(spark, in_avro, Chosen(), print) == 1
        run(spark, in_avro, window())
    assert not list(quarantine.records(in_avro, Chosen()))
    assert published(spark, in_avro, *TABLES) == published(spark, in_json, *TABLES)
    moved = spark.table(lake_name(in_avro, TABLES[0], "_changes")).where("paired_change_id IS NOT NULL")
    assert not moved.isEmpty()


def require_whole_files(feed: Feed) -> None:
    """Asserts that a half that was joined is in no file any more, and that another commit only adds rows."""
    ledgers = [catalog.load(lake_name(feed, name, "_changes")) for name in TABLES]
    commits = [[s.summary for s in ledger.snapshots() if s.summary is not None] for ledger in ledgers]
    assert {commit["total-delete-files"] for ledger in commits for commit in ledger} == {"0"}
    assert {ledger[-1].operation for ledger in commits} == {Operation.APPEND}
    assert any(commit.operation == Operation.OVERWRITE for ledger in commits for commit in ledger)


def in_two_windows(
    spark: SparkSession,
    kafka: KafkaBroker,
    monkeypatch: pytest.MonkeyPatch,
    dialect: str,
    whole: list[Message],
    parts: tuple[list[Message], list[Message]],
    tables: Sequence[str],
    *,
    from_the_same_time: bool = False,
) -> Counter[str]:
    """Publishes both and asserts equality. Returns why messages waited between the windows of `parts`."""

    def feed_of(form: str) -> Feed:
        name, listed = f"{dialect}_{form}", [{"table": table} for table in tables]
        return message_feed(name, dialect, kafka, [f"{name}.*"], monkeypatch, tables=listed)

    def to(feed: Feed, part: list[Message]) -> list[Message]:
        return [m._replace(topic=f"{feed.feed}.{m.topic}") for m in part]

    at_once, parted = feed_of("whole"), feed_of("parted")
    carry(spark, kafka, at_once, to(at_once, whole))
    end = carry(spark, kafka, parted, to(parted, parts[0]))
    waited = Counter(row["reason"] for row in rows(spark, parted.lake.pending))
    carry(spark, kafka, parted, to(parted, parts[1]), BEGIN if from_the_same_time else end)
    assert not rows(spark, parted.lake.pending)
    assert published(spark, parted, *tables) == published(spark, at_once, *tables)
    return waited


def test_ces_with_the_segments_of_an_event_in_two_windows(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two events are cut, one in JSON, one in Avro. The second window reads the first one's records again."""
    log, (orders, parts) = simulate(5, 12), (table.encode() for table in TABLES)
    events = [m for m in ces.messages(log) if m.key in {orders, parts}]
    in_json = [m for m in ces.messages(log, split_at=900) if m.key == orders]
    logical = [json.loads(m.value or b"{}")["logicalid"] for m in in_json]
    cut = next(at for at in range(20, len(in_json)) if logical[at - 1] == logical[at])
    in_avro = [list(ces_avro.messages([m], split_at=600)) for m in events if m.key == parts]
    at = next(at for at in range(10, len(in_avro)) if len(in_avro[at]) > 1)
    begin, *later_segments = in_avro[at]
    windows = (
        [*in_json[:cut], *chain(*in_avro[:at]), begin],
        [*later_segments, *in_json[cut:], *chain(*in_avro[at + 1 :])],
    )
    waited = in_two_windows(
        spark, kafka, monkeypatch, "ces", events, windows, TABLES, from_the_same_time=True
    )
    assert waited == {"split_incomplete": logical[:cut].count(logical[cut]) + 1}


def test_qlik_messages_with_data_in_a_window_before_their_metadata(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metadata of a JSON and an Avro table comes late; a third table's is known from before."""
    tables = ("dbo.customers", *TABLES)
    messages = [
        m
        for m in qlik_messages.messages(simulate(5, 12), envelope=True, snapshot=False)
        if m.topic.endswith(tables)
    ]
    late, *json_rows = [m for m in messages if m.topic.endswith("sales.orders")]
    known, late_avro, *avro_rows = qlik_messages_avro.messages(
        m for m in messages if not m.topic.endswith("sales.orders")
    )
    half = len(avro_rows) // 2
    windows = (
        [known, *avro_rows[:half], *json_rows[:10]],
        [late_avro, late, *avro_rows[half:], *json_rows[10:]],
    )
    waited = in_two_windows(spark, kafka, monkeypatch, "qlik_messages", messages, windows, tables)
    early = sum(m.topic.endswith("dbo.parts") for m in avro_rows[:half])
    assert waited == {"metadata_unknown": early + 10}
