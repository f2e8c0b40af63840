"""A database is restored behind a connector: its LSNs begin again, and no run publishes its new changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import Asked, ControlStore
from changeledger.control.tables.releases import ReleaseRow
from changeledger.lake import refs
from changeledger.model.errors import AuditFailed
from changeledger.model.window import Request
from changeledger.stages.maintenance.rolling_back import roll_back
from sourcelab.debezium import messages
from sourcelab.log import Log, simulate
from sourcelab.messages import produce
from sourcelab.services import KafkaBroker
from tests.integration.line import debezium_feed, run, window

pytestmark = [pytest.mark.integration, pytest.mark.long]

TABLE = "dbo.customers"


@pytest.fixture
def log() -> Log:
    return simulate(5, 48)


@pytest.fixture
def restored(log: Log) -> Log:
    """Commits of a day later, at positions that the log already had."""
    other = simulate(9, 5)
    later = [
        replace(done, commit_time=done.commit_time + timedelta(days=1)) for done in other.transactions[1:]
    ]
    assert later[-1].commit_lsn < log.transactions[39].commit_lsn
    assert later[0].commit_time > log.transactions[-1].commit_time
    return replace(other, transactions=(other.transactions[0], *later))


def test_a_restored_database(
    spark: SparkSession, kafka: KafkaBroker, log: Log, restored: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = debezium_feed("restored", kafka, "restored", monkeypatch, tables=[{"table": TABLE}])

    def send(of: Log, begin: int, end: int) -> None:
        sent = messages(of, schemas=True, snapshot=False, prefix="restored", from_tx=begin, to_tx=end)
        produce(kafka.bootstrap, list(sent), partitions=1)

    send(log, 0, 40)
    run(spark, feed, window())
    send(log, 40, 48)
    run(spark, feed, window())
    published = refs.heads(tables_of(feed), refs.MAIN)

    send(restored, 1, 5)
    with pytest.raises(AuditFailed, match=r"dbo\.customers: one_log: [1-9]"):
        run(spark, feed, window())
    assert refs.heads(tables_of(feed), refs.MAIN) == published
    # A rollback also takes back the stored end of the log.
    ends = [release.counts["log_end"] for release in releases(feed)]
    roll_back(lambda: spark, feed, 1, Asked("to look at it", "ann"))
    assert releases(feed)[-1].counts["log_end"] == ends[0] != ends[1]
    with pytest.raises(AuditFailed, match=r"dbo\.customers: one_log: [1-9]"):
        run(spark, feed, window())
    tolerant = Request(tolerate="error", reason="we know it")
    run(spark, feed, window().model_copy(update={"request": tolerant}))
    assert len(releases(feed)) == 4


def releases(feed: Feed) -> list[ReleaseRow]:
    return ControlStore(Settings().control_url).releases.of_feed(feed.feed)


def tables_of(feed: Feed) -> list[str]:
    return [name for names in feed.names.values() for name in (names.changes, names.history, names.current)]
