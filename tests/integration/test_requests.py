"""What a person may ask of a run: chosen tables, a dry run, tolerated rules, a replay."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.lake import refs
from changeledger.lake.refs import release_tag
from changeledger.model.errors import AuditFailed, ConfigError, StageOrderError
from changeledger.model.window import Request, Window
from changeledger.stages import audit, extract, normalize, publish, reconcile
from changeledger.state.status import gather
from sourcelab import ces, sqlserver_cdc
from sourcelab.messages import produce
from sourcelab.services import KafkaBroker, Postgres
from sourcelab.tables import CUSTOMERS, ORDERS
from tests.integration.line import (
    BEGIN,
    cdc_feed,
    current_rows,
    lake_name,
    message_feed,
    rows,
    run,
    without_spark,
)
from tests.one_release import LOG, RELEASED, OneRelease, feed_of

pytestmark = pytest.mark.integration

BUILD = (extract, normalize, reconcile)
BOTH = [{"table": "dbo.customers"}, {"table": "sales.orders"}]


@pytest.fixture(scope="module")
def released(
    spark: SparkSession,
    new_database: Callable[[], Postgres],
    tmp_path_factory: pytest.TempPathFactory,
) -> OneRelease:
    """The lake of the feed `asked` with the first half of the log."""
    source = new_database()
    sqlserver_cdc.load(source.url, LOG, to_tx=RELEASED)
    folder, over = tmp_path_factory.mktemp("asked"), asked()
    return OneRelease.published(
        spark, folder, lambda patch: cdc_feed("asked", source, patch, tables=BOTH), over
    )


@pytest.fixture
def lake(
    spark: SparkSession, released: OneRelease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SparkSession:
    """A copy of the lake with one release, for the test's own source."""
    return released.copy(spark, tmp_path, monkeypatch)


@pytest.fixture
def source(postgres: Postgres) -> Postgres:
    sqlserver_cdc.load(postgres.url, LOG, to_tx=RELEASED)
    return postgres


@pytest.fixture
def feed(source: Postgres, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Feed:
    name = request.node.name.removeprefix("test_")[:50]
    return cdc_feed("asked" if "lake" in request.fixturenames else name, source, monkeypatch, tables=BOTH)


def asked(end: datetime | None = None, start: datetime = BEGIN, **request: Any) -> Window:
    return Window(start=start, end=end or datetime.now(UTC), request=Request(**request))


def idle(**request: Any) -> Window:
    """Returns a window of the last moment, when nothing came: an earlier start would read the past again."""
    end = datetime.now(UTC)
    return asked(end, end - timedelta(milliseconds=1), **request)


def control() -> ControlStore:
    return ControlStore(Settings().control_url)


def main_of(feed: Feed) -> dict[str, Any]:
    names = [lake_name(feed, table, kind) for table in feed.names for kind in ("", "_history", "_changes")]
    return {name: refs.snapshot_of(name) for name in names}


def reported_by(spark: SparkSession, feed: Feed, over: Window) -> dict[tuple[str, str], int]:
    dispositions = spark.table(feed.lake.dispositions).where(f"window_id = '{over.id}'")
    return {
        (r["table"], r["disposition"]): r["count"]
        for r in dispositions.groupBy("table", "disposition").count().collect()
    }


@pytest.mark.long
def test_chosen_tables_are_read_again(
    lake: SparkSession, released: OneRelease, feed: Feed, source: Postgres
) -> None:
    over = released.over
    before, position = main_of(feed), control().windows.position(feed.feed)
    again = asked(over.end, mode="window", tables=("dbo.customers",), run="manual__1")
    run(lake, feed, again)
    assert set(reported_by(lake, feed, again)) == {("dbo.customers", "duplicate")}
    assert control().windows.position(feed.feed) == position
    after = main_of(feed)
    untouched = [name for name in before if "sales_orders" in name]
    assert {name: after[name] for name in untouched} == {name: before[name] for name in untouched}
    release = control().releases.latest(feed.feed)
    assert release is not None
    assert release.window_id == again.id
    counts = release.counts["tables"]
    assert {name: sum(of["changes"].values()) for name, of in counts.items()} == dict.fromkeys(counts, 0)
    for table in (CUSTOMERS, ORDERS):
        assert counts[table.full_name]["current"] == len(current_rows(feed, table)), "also if not chosen"
    for name in after:
        assert refs.snapshot_of(name, release_tag(release.id)) == after[name], "one tag for all tables"
    sqlserver_cdc.append(source.url, LOG, RELEASED, len(LOG.transactions))
    with pytest.raises(ConfigError, match=r"(?s)beyond the last release.*without `tables`"):
        extract.run(lake, feed, asked(mode="window", tables=("dbo.customers",), run="manual__2"))
    assert control().leases.of_feed(feed.feed) is None, "no retry corrects that: the next run may begin"


@pytest.mark.long
def test_a_table_that_the_feed_got_later(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tables are in one topic, whose records were read when the feed did not have the table yet."""
    early = message_feed("later", "ces", kafka, ["later"], monkeypatch, tables=BOTH[:1])
    produce(kafka.bootstrap, ces.messages(LOG, topic="later"))
    over = asked()
    run(spark, early, over)
    feed = Feed.model_validate({**early.model_dump(), "tables": BOTH})
    run(spark, feed, asked(over.end, mode="window", tables=("sales.orders",), run="manual__1"))
    assert current_rows(feed, ORDERS) == LOG.final_rows(ORDERS)
    assert current_rows(feed, CUSTOMERS) == LOG.final_rows(CUSTOMERS)
    assert extract.run(without_spark, feed, idle()) is False, "nothing of the topic is left"


@pytest.mark.long
def test_a_feed_of_change_tables_knows_its_tables(lake: SparkSession, feed: Feed) -> None:
    """The feed knows the tables that it reads, and one that it no longer reads."""
    assert set(control().feed_tables.of_feed(feed.feed)) == {"dbo.customers", "sales.orders"}
    assert control().feed_tables.lacking(feed.feed) == []
    fewer = Feed.model_validate({**feed.model_dump(), "tables": BOTH[:1]})
    assert gather(control(), fewer).removed == ("sales.orders",)


def test_nothing_new_then_a_dry_run_and_then_the_true_one(
    spark: SparkSession,
    one_release: OneRelease,
    source: Postgres,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake, feed = one_release.copy(spark, tmp_path, monkeypatch), feed_of(source, monkeypatch)
    release, before = control().releases.latest(feed.feed), main_of(feed)
    position = control().windows.position(feed.feed)
    assert extract.run(without_spark, feed, idle(dry_run=True)) is False
    over = idle()
    assert extract.run(without_spark, feed, over) is False
    stored = control().windows.row(feed.feed, over.id)
    assert stored is not None
    assert stored.status == "empty"
    assert control().windows.reached(feed.feed) == over.end
    assert control().leases.of_feed(feed.feed) is None
    assert not extract.run(without_spark, feed, over), "again: done already"
    assert control().windows.position(feed.feed) == position
    sqlserver_cdc.append(source.url, LOG, RELEASED, len(LOG.transactions))
    trial = asked(dry_run=True, run="manual__1")
    run(lake, feed, trial, (*BUILD, audit))
    stored = control().windows.row(feed.feed, trial.id)
    assert stored is not None
    assert stored.request.dry_run
    with pytest.raises(StageOrderError, match="dry run"):
        publish.run(lake, feed, trial)
    assert main_of(feed) == before
    newest = control().releases.latest(feed.feed)
    assert newest is not None
    assert release is not None
    assert newest.id == release.id
    control().leases.release(feed.feed, trial.holder)
    true = asked(trial.end, run="manual__2")
    assert true.id == trial.id
    run(lake, feed, true)
    assert current_rows(feed, CUSTOMERS) == LOG.final_rows(CUSTOMERS)


@pytest.mark.long
def test_rules_let_pass_for_a_reason(
    spark: SparkSession, source: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = cdc_feed("tolerant", source, monkeypatch, tables=BOTH, quarantine_limit=0)
    spoil(source)
    over = asked()
    run(spark, feed, over, BUILD)
    with pytest.raises(AuditFailed, match="quarantine_limit: 1 violation"):
        audit.run(spark, feed, over)
    excused = asked(over.end, tolerate="error", reason="row 10000 is a test of theirs")
    run(spark, feed, excused)
    release = control().releases.latest(feed.feed)
    assert release is not None
    assert release.counts["tolerated"] == [
        [f"feed {feed.feed}", "quarantine_limit", 1, "row 10000 is a test of theirs"]
    ]
    stored = control().windows.row(feed.feed, excused.id)
    assert stored is not None
    assert stored.request.reason == "row 10000 is a test of theirs"
    # Read again: the record is still unreadable, and in quarantine once.
    replay = asked(
        mode="replay", tables=("dbo.customers",), tolerate="error", reason="as before", run="manual__2"
    )
    run(spark, feed, replay)
    assert reported_by(spark, feed, replay) == {("dbo.customers", "quarantined"): 1}
    (kept,) = rows(spark, feed.lake.quarantine)
    assert kept["window_id"] == replay.id
    # Nothing is to be replayed for another table.
    other = asked(mode="replay", tables=("sales.orders",), run="manual__3")
    assert extract.run(spark, feed, other) is False


@pytest.mark.long
def test_a_branch_that_no_longer_follows_main(spark: SparkSession, feed: Feed, source: Postgres) -> None:
    """A cleared middle task: between the window's audit and its publish, another window was released."""
    early = asked()
    run(spark, feed, early, (*BUILD, audit))
    control().leases.release(feed.feed, early.holder)
    sqlserver_cdc.append(source.url, LOG, RELEASED, len(LOG.transactions))
    run(spark, feed, asked())
    done = main_of(feed)
    for stage in (reconcile, audit, publish):
        with pytest.raises(StageOrderError, match="clear normalize with what follows it"):
            stage.run(spark, feed, early)
    assert main_of(feed) == done
    assert not control().releases.incomplete(feed.feed)
    run(spark, feed, early, (normalize, reconcile, audit, publish))
    assert current_rows(feed, CUSTOMERS) == LOG.final_rows(CUSTOMERS)
    assert current_rows(feed, ORDERS) == LOG.final_rows(ORDERS)


def spoil(source: Postgres) -> None:
    """Adds a row of customers with an operation that does not exist."""
    table = '"cdc"."dbo_customers_CT"'
    with psycopg.connect(source.url.replace("+psycopg", ""), autocommit=True) as database:
        cursor = database.execute(f'SELECT * FROM {table} WHERE "__$operation" = 2 LIMIT 1')
        assert cursor.description is not None
        names = [d.name for d in cursor.description]
        row = dict(zip(names, cursor.fetchone() or (), strict=True)) | {"__$operation": 9, "id": 10_000}
        columns = ", ".join(f'"{n}"' for n in names)
        marks = ", ".join(["%s"] * len(names))
        database.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", [row[n] for n in names])
