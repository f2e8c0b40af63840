"""A feed is loaded again: published tables stay until the new ones are proven, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.control import Asked, AskedReset
from changeledger.control.lease import Leases
from changeledger.lake import refs
from changeledger.model.errors import AuditFailed, ConfigError, LeaseHeld, SourceDataLostError
from changeledger.model.window import Request
from changeledger.stages import audit, extract, normalize, publish, reconcile
from changeledger.stages.maintenance import resetting
from changeledger.stages.maintenance.rolling_back import roll_back
from sourcelab import sqlserver_cdc
from sourcelab.debezium import messages
from sourcelab.log import Log
from sourcelab.messages import produce
from sourcelab.postgres import plain_url
from sourcelab.services import KafkaBroker, Postgres
from sourcelab.tables import CUSTOMERS
from tests import one_release
from tests.faults.matrix.lab import State
from tests.faults.test_judged import Killed
from tests.faults.test_sources import recreate
from tests.faults.two_releases import (
    TABLES,
    TwoReleases,
    content,
    control,
    feed_of,
    following,
    load,
    published_to,
)
from tests.integration.line import cdc_feed, current_rows, debezium_feed, lake_name, run, window
from tests.lake_states import lake_of
from tests.one_release import OneRelease
from tests.stored_rows import stored_rows

pytestmark = pytest.mark.integration

BUILD = (extract, normalize, reconcile, audit)
ASKED = AskedReset("the decoder was wrong", "ann")


@pytest.fixture
def feed(two_releases: TwoReleases, monkeypatch: pytest.MonkeyPatch) -> Feed:
    return feed_of(two_releases.source, monkeypatch)


@pytest.fixture
def lake(
    spark: SparkSession, two_releases: TwoReleases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SparkSession:
    """A session on a lake with two published windows."""
    return lake_of(spark, two_releases.second.copy(tmp_path), two_releases.files, monkeypatch)


@pytest.fixture(name="released")
def lake_with_one_release(
    spark: SparkSession, one_release: OneRelease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SparkSession:
    return one_release.copy(spark, tmp_path, monkeypatch)


@pytest.fixture
def log(two_releases: TwoReleases) -> Log:
    return two_releases.log


def ask(spark: SparkSession, feed: Feed, asked: AskedReset = ASKED) -> None:
    resetting.ask(lambda: spark, feed, asked)


@pytest.mark.long
def test_the_same_tables_in_one_release(
    lake: SparkSession, log: Log, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = feed_of(postgres, monkeypatch)
    load(postgres, log, published_to(log))
    before, raw = content(feed), len(stored_rows(lake_name(feed, "raw_dbo.customers")))
    position, mains = control().windows.position(feed.feed), control().releases.latest(feed.feed)
    assert mains is not None
    ask(lake, feed)
    over = following()
    run(lake, feed, over, BUILD)
    assert content(feed) == before
    assert refs.heads(mains.tables, refs.MAIN) == mains.tables, "until it is proven main stays"
    publish.run(lake, feed, over)
    assert content(feed) == before
    assert content(feed, "release_2") == before, "a reader by tag sees no change"
    release = control().releases.latest(feed.feed)
    assert release is not None
    assert (release.id, release.completed, release.window_id) == (3, True, over.id)
    assert mains.committed is not None
    assert release.committed is None, "what is loaded again says nothing of how late changes can be read"
    assert {row["window_id"] for row in stored_rows(lake_name(feed, TABLES[0], "_changes"))} == {over.id}
    assert control().windows.position(feed.feed) == position
    (row,) = control().resets.of_feed(feed.feed)
    assert (row.release, row.reason, row.by) == (3, ASKED.reason, ASKED.by)
    assert len(stored_rows(lake_name(feed, "raw_dbo.customers"))) == 2 * raw, "raw has both readings"
    assert [row["window_id"] for row in stored_rows(feed.lake.quarantine)] == [over.id], "it is there once"
    dispositions = [row["window_id"] for row in stored_rows(feed.lake.dispositions)]
    assert dispositions.count(over.id) * 2 == len(dispositions), "what became of the first reading is kept"
    sqlserver_cdc.append(postgres.url, log, published_to(log), len(log.transactions))
    run(lake, feed, following())
    assert current_rows(feed, CUSTOMERS) == log.final_rows(CUSTOMERS), "the next run goes on from there"
    roll_back(lambda: lake, feed, 2, Asked("it was right", "ben"))
    assert content(feed) == before


@pytest.mark.long
def test_rows_that_the_source_has_no_more(
    lake: SparkSession, feed: Feed, log: Log, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change tables were cleaned up without notice: the audit finds the rows that would be gone."""
    before, first = content(feed), log.transactions[8].commit_lsn
    sqlserver_cdc.load(postgres.url, log, to_tx=published_to(log))
    with psycopg.connect(plain_url(postgres.url)) as session:
        for name in ("dbo_customers", "dbo_parts"):
            session.execute(f'DELETE FROM cdc."{name}_CT" WHERE "__$start_lsn" < %s', [first])
    cleaned = feed_of(postgres, monkeypatch)
    ask(lake, feed)
    with pytest.raises(AuditFailed, match="reset_keeps_rows"):
        run(lake, cleaned, following(), BUILD)
    assert content(feed) == before
    failed = {
        row.rule: row for row in control().audits.of_window(feed.feed, last_window(feed)) if not row.success
    }
    assert {"reset_reads_everything_again", "reset_keeps_rows"} <= failed.keys()
    assert failed["reset_keeps_rows"].violations > 0
    with psycopg.connect(plain_url(postgres.url)) as session:
        session.execute("UPDATE cdc.change_tables SET start_lsn = %s", [log.transactions[20].commit_lsn])
    with pytest.raises(SourceDataLostError, match="change tables lack rows") as refused:
        extract.run(lake, cleaned, following())
    assert "--accept-gap" in refused.value.remedy
    resetting.withdraw(feed, "ben", "the source cannot give them")
    assert extract.run(lake, feed, following()) is False
    assert content(feed) == before


def last_window(feed: Feed) -> str:
    row = control().windows.last(feed.feed)
    assert row is not None
    return row.window_id


def test_what_is_refused(released: SparkSession, postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = one_release.feed_of(postgres, monkeypatch)
    control().leases.acquire(feed.feed, "a run", 60)
    with pytest.raises(LeaseHeld):
        ask(released, feed)
    control().leases.release(feed.feed, "a run")
    with pytest.raises(ConfigError, match="no waiting reset"):
        resetting.withdraw(feed, "ben", "none")
    with monkeypatch.context() as patch:
        patch.setattr(Leases, "release", killed)
        with pytest.raises(Killed):
            ask(released, feed)
    ask(released, feed)
    assert [row.status for row in control().resets.of_feed(feed.feed)] == ["asked"], "it is asked once"
    for request in (Request(mode="replay"), Request(mode="window", tables=TABLES[:1])):
        with pytest.raises(ConfigError, match="ann has asked for a reset"):
            extract.run(released, feed, following(request))


def killed(*_: object) -> None:
    raise Killed


def test_a_source_without_a_record(
    released: SparkSession, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = one_release.feed_of(postgres, monkeypatch)
    sqlserver_cdc.load(postgres.url, one_release.LOG, to_tx=0)
    ask(released, feed)
    with pytest.raises(SourceDataLostError, match="no records to read for a reset"):
        extract.run(released, feed, following())
    assert control().resets.pending(feed.feed) is not None


def test_a_feed_without_a_release(
    released: SparkSession, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="has published nothing"):
        ask(released, cdc_feed("new", postgres, monkeypatch, tables=[{"table": TABLES[0]}]))


@pytest.mark.long
def test_topics_that_retention_has_cut(
    spark: SparkSession, kafka: KafkaBroker, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake_of(spark, State(tmp_path), tmp_path / "files", monkeypatch)
    feed = debezium_feed("cut", kafka, "cut", monkeypatch, tables=[{"table": TABLES[0]}])
    produce(kafka.bootstrap, list(messages(log, schemas=True, snapshot=False, prefix="cut")), partitions=1)
    run(lake, feed, window())
    topic = "cut.shop.dbo.customers"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, 3)]).values():
        future.result()
    ask(lake, feed)
    with pytest.raises(
        SourceDataLostError, match=r"customers\[0\]: offsets 0 to 2 were removed by retention"
    ):
        extract.run(lake, feed, following())
    ask(lake, feed, ASKED._replace(accept_gap=True))
    over = following()
    extract.run(lake, feed, over)
    stored = control().windows.row(feed.feed, over.id)
    assert stored is not None
    assert stored.from_position is not None
    assert stored.from_position[topic] == {"0": 3}, "it reads what there is; the audit decides"


def extracted(spark: SparkSession, feed: Feed) -> bool | None:
    """Reads a window, and leaves it to the next one."""
    over = following()
    try:
        return extract.run(spark, feed, over)
    finally:
        control().leases.release(feed.feed, over.holder)


@pytest.mark.long
def test_a_topic_that_was_made_again_and_is_shorter(
    spark: SparkSession, kafka: KafkaBroker, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run after the reset's release continues; a withdrawn reset forgets nothing."""
    lake = lake_of(spark, State(tmp_path), tmp_path / "files", monkeypatch)
    tables = [{"table": table} for table in TABLES]
    feed = debezium_feed("made_again", kafka, "made_again", monkeypatch, tables=tables)
    topic = "made_again.shop.dbo.customers"
    sent = list(messages(log, schemas=True, snapshot=False, heartbeats=False, prefix="made_again"))
    of_table = [message for message in sent if message.topic == topic]
    produce(kafka.bootstrap, [*sent, *of_table], partitions=1)
    run(lake, feed, window())
    before = content(feed)
    recreate(kafka, topic)
    produce(kafka.bootstrap, of_table, partitions=1)
    accepted = ASKED._replace(accept_gap=True)
    ask(lake, feed, accepted)
    extracted(lake, feed)
    resetting.withdraw(feed, "ben", "wait")
    with pytest.raises(SourceDataLostError, match="it was recreated") as lost:
        extracted(lake, feed)
    assert f"changeledger reset {feed.feed} --accept-gap" in lost.value.remedy
    ask(lake, feed, accepted)
    run(lake, feed, following())
    assert content(feed) == before
    assert extracted(lake, feed) is False, "it knows the topic"
    marks = control().sources.marks(feed.feed)
    assert marks[f"{topic}[0]"].place == len(of_table)
