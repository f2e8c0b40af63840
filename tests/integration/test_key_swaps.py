"""Statements that swap and rotate keys, in both dialects of Qlik, through all stages.

The messages of the full load are delivered twice.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from sourcelab import qlik_messages, qlik_tables
from sourcelab.log import Change, Log, simulate
from sourcelab.messages import produce
from sourcelab.services import KafkaBroker, Postgres
from sourcelab.tables import ORDERS, Key, Row
from tests.integration.line import KEYS, current_rows, lake_name, message_feed, qlik_tables_feed, run, window

pytestmark = pytest.mark.integration

ONE_TABLE = [{"table": ORDERS.full_name, "key": KEYS[ORDERS.full_name]}]
# Which row (by number) takes which row's key: a swap, and a rotation of three, each in one transaction.
STATEMENTS = ({0: 1, 1: 0}, {0: 2, 2: 1, 1: 0})


def swapping_log() -> tuple[Log, dict[Key, Row]]:
    """Returns a log of initial rows and `STATEMENTS`, and the rows at the end."""
    log = simulate(7, 0)
    begun = log.transactions[0]
    kept = tuple(change for change in begun.changes if change.table is ORDERS)[:5]
    live = [change.after for change in kept if change.after is not None]
    keys = [ORDERS.key_of(row) for row in live]
    transactions = [replace(begun, changes=kept)]
    serial, lsn = 10**6, int.from_bytes(begun.commit_lsn)
    holders = list(range(len(live)))
    for minute, statement in enumerate(STATEMENTS, start=1):
        changes = []
        # `holders[n]` is the row that has the n-th key.
        moved = {holders[old]: keys[new] for old, new in statement.items()}
        held = {new: holders[old] for old, new in statement.items()}
        for number, key in moved.items():
            before = live[number]
            after = before | dict(zip(ORDERS.key, key, strict=True))
            serial, lsn = serial + 1, lsn + 1
            changed = tuple(name for name in ORDERS.key if before[name] != after[name])
            changes.append(Change(ORDERS, "key_update", before, after, lsn.to_bytes(10), 1, changed, serial))
            live[number] = after
        for place, number in held.items():
            holders[place] = number
        lsn += 1
        at = begun.commit_time + timedelta(minutes=minute)
        ids = {"begin_lsn": (lsn - 1).to_bytes(10), "commit_lsn": lsn.to_bytes(10)}
        times = {"begin_time": at, "commit_time": at}
        transactions.append(replace(begun, **ids, **times, changes=tuple(changes)))
    return Log((ORDERS,), tuple(transactions)), {ORDERS.key_of(row): row for row in live}


@pytest.mark.long
def test_swaps_keep_all_rows(
    spark: SparkSession, kafka: KafkaBroker, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, alive = swapping_log()
    assert len(alive) == 5
    messages = list(qlik_messages.messages(log, envelope=True, snapshot=True, prefix="swaps"))
    # The metadata, five rows of the full load, and the updates: the rows come twice.
    produce(kafka.bootstrap, [*messages[:6], *messages[1:]], partitions=1)
    qlik_tables.load(postgres.url, log)
    feeds = [
        qlik_tables_feed("swap_tables", postgres, monkeypatch, tables=ONE_TABLE),
        message_feed(
            "swap_messages", "qlik_messages", kafka, ["swaps.*"], monkeypatch,
            tables=[{"table": ORDERS.full_name}],
        ),
    ]  # fmt: skip
    over = window()
    for feed in feeds:
        run(spark, feed, over)
        check(spark, feed, alive)
    assert (
        spark.table(lake_name(feeds[1], ORDERS.full_name, "_changes")).where("operation = 'snapshot'").count()
        == 10
    )


def check(spark: SparkSession, feed: Feed, alive: dict[Key, Row]) -> None:
    """Asserts that five rows remain with their values, and history has a version for each key of a row."""
    assert current_rows(feed, ORDERS) == alive, feed.feed
    versions = spark.table(lake_name(feed, ORDERS.full_name, "_history")).where("NOT _is_deleted")
    # Five rows, two that were swapped, and three that were rotated.
    assert versions.count() == 10, feed.feed
    assert versions.where("_valid_to <= _valid_from").isEmpty(), feed.feed
    assert not spark.catalog.tableExists(feed.lake.image_chain_breaks), feed.feed
