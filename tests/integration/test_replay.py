"""Quarantined records are replayed after a fix: the tables are as if there had been no fault."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from changeledger.cli import quarantine
from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.state import overview, status
from changeledger.state.quarantine import Chosen
from sourcelab import debezium, sqlserver_cdc
from sourcelab.log import Log, simulate
from sourcelab.messages import Message, produce
from sourcelab.services import KafkaBroker, Postgres
from sourcelab.tables import ORDERS
from tests.integration.line import cdc_feed, debezium_feed, published, rows, run, window

pytestmark = pytest.mark.integration

TABLE = "sales.orders"
STATED = {
    "table": TABLE,
    "columns": [{"name": column.name, "type": column.type} for column in ORDERS.columns],
    "key": list(ORDERS.key),
}
EVERYTHING = Chosen()
Replay = Callable[[SparkSession, Feed, Chosen, Callable[[str], None]], int]


@pytest.fixture(scope="module")
def log() -> Log:
    return simulate(11, 30)


def reported(log: Log, prefix: str) -> list[Message]:
    """Returns messages without a schema block, which would say how decimals are written."""
    messages = debezium.messages(log, schemas=False, snapshot=False, heartbeats=False, prefix=prefix)
    return [m for m in messages if m.topic.endswith(TABLE)]


def replay_in_vain(spark: SparkSession, feed: Feed, records: int, *replays: Replay) -> None:
    for replay in replays:
        assert replay(spark, feed, EVERYTHING, print) == records
        run(spark, feed, window())
        assert len(list(quarantine.records(feed, EVERYTHING))) == records
        assert quarantined_on_the_page(feed) == records, "once, though two windows have quarantined them"


def quarantined_on_the_page(feed: Feed) -> int:
    control = ControlStore(Settings().control_url)
    return overview.line(control, feed, control.overview.rows_of(feed.feed, overview.LAST)).quarantined


def replay_beside_a_run(spark: SparkSession, feed: Feed, chosen: Chosen, say: Callable[[str], None]) -> int:
    """Replays while another run works, and asserts that the replay waits for its end."""
    control, said = ControlStore(Settings().control_url), []
    control.leases.acquire(feed.feed, "another run", 60)

    def end(text: str) -> None:
        said.append(text)
        control.leases.release(feed.feed, "another run")

    records = quarantine.replay(spark, feed, chosen, end)
    (waits,) = said
    assert waits.startswith(f"waiting: another run works on the feed '{feed.feed}' until")
    return records


@pytest.mark.long
def test_messages_of_a_shape_that_was_refused(
    spark: SparkSession, kafka: KafkaBroker, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The feed states a wrong way to write decimals; after a correction, the records are replayed.

    One message can never be read. A replay waits while a run is at work.
    """
    tables = [STATED]
    right = debezium_feed("replay_right", kafka, "right", monkeypatch, tables=tables)
    produce(kafka.bootstrap, reported(log, "right"), partitions=1)
    run(spark, right, window())

    bad = Message(f"wrong.shop.{TABLE}", b"{}", b"{", (), 1)
    produce(kafka.bootstrap, [*reported(log, "wrong"), bad], partitions=1)
    wrong = debezium_feed(
        "replay_wrong", kafka, "wrong", monkeypatch, tables=tables,
        source={"topics": ["wrong.*"], "decimal.handling.mode": "string"},
    )  # fmt: skip
    run(spark, wrong, window())
    records = {line["reason"]: line["records"] for line in quarantine.summary(wrong, EVERYTHING)}
    assert records.keys() == {"unparseable_json", "value_does_not_fit"}
    assert records["value_does_not_fit"] > 10
    assert {line["table"] for line in quarantine.summary(wrong, EVERYTHING)} == {TABLE}
    assert published(spark, wrong, TABLE) != published(spark, right, TABLE)

    every = sum(records.values())
    # Replayed twice: the second time, quarantine has the records by the replay's run, raw by the first.
    replay_in_vain(spark, wrong, every, replay_beside_a_run, quarantine.replay)
    corrected = wrong.model_copy(update={"source": right.source.model_copy(update={"topics": ("wrong.*",)})})
    other = Chosen(reason="unknown_operation")
    assert quarantine.replay(spark, corrected, other, print) == 0
    assert quarantine.replay(spark, corrected, EVERYTHING, print) == every
    assert quarantine.replay(spark, corrected, EVERYTHING, print) == 0, "they are on the list already"
    run(spark, corrected, window())
    assert published(spark, corrected, TABLE) == published(spark, right, TABLE)
    assert not rows(spark, corrected.lake.replay_requests), "read again once"
    stands = status.gather(ControlStore(Settings().control_url), corrected)
    assert stands.quarantine == ((TABLE, "unparseable_json", 1),)
    assert stands.holder is None
    assert stands.open_window is None
    assert stands.released_to is not None
    (kept,) = quarantine.records(corrected, EVERYTHING)
    assert (kept["reason"], kept["raw_value"]) == ("unparseable_json", b"{")
    assert kept["source_position"]["source"] == f"wrong.shop.{TABLE}"


@pytest.mark.long
def test_rows_of_a_change_table(
    spark: SparkSession, log: Log, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The feed states a byte order that its masks contradict; then the statement is removed."""
    tables = [{"table": TABLE}]
    sqlserver_cdc.load(postgres.url, log)
    right = cdc_feed("rows_right", postgres, monkeypatch, tables=tables)
    run(spark, right, window())
    wrong = cdc_feed("rows_wrong", postgres, monkeypatch, tables=tables, mask_order="little")
    run(spark, wrong, window())
    (line,) = quarantine.summary(wrong, EVERYTHING)
    assert (line["table"], line["reason"]) == (TABLE, "mask_order_contradicted")
    replay_in_vain(spark, wrong, line["records"], quarantine.replay)
    corrected = wrong.model_copy(update={"mask_order": "auto"})
    assert quarantine.replay(spark, corrected, EVERYTHING, print) == line["records"]
    run(spark, corrected, window())
    assert published(spark, corrected, TABLE) == published(spark, right, TABLE)
    assert not list(quarantine.records(corrected, EVERYTHING))
    assert quarantined_on_the_page(corrected) == 0
