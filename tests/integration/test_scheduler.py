"""Airflow's own scheduler: in whatever order windows are run, and how often, the tables are the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from changeledger.config.files import named_feed
from changeledger.config.settings import Settings
from changeledger.model.table_names import TableNames
from changeledger.model.window import Window
from sourcelab.log import Log, simulate
from tests.integration.airflow_lab import BEGIN, HOUR, HOURS, Lab, running, spread
from tests.integration.line import run
from tests.lake_states import session_of

pytestmark = pytest.mark.integration

TABLE = "sales.orders"
FEEDS = ("forwards", "backwards")
CONNECTION = "AIRFLOW_CONN_SHOP_SQLSERVER"
# What says in which run a row was written.
OF_THE_RUN = ("_window_id", "window_id", "feed", "source_position", "paired_source_position")


def test_windows_in_any_order_and_at_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = spread(simulate(5, 30))
    with running(FEEDS, [TABLE], log, tmp_path, monkeypatch) as lab:
        monkeypatch.setenv(CONNECTION, lab.airflow.environment[CONNECTION])
        _run(spark, lab, log)


def _run(spark: SparkSession, lab: Lab, log: Log) -> None:
    lab.backfill("forwards")
    lab.backfill("backwards", "--run-backwards")
    # In mid-run: one of them has read its first window, other windows wait.
    lab.await_that(lambda: lab.has_ended("forwards", "extract"))
    lab.lose_the_scheduler()
    straight = in_one_window(spark, lab.settings)
    runs = 2 * HOURS
    lab.await_that(lab.all_done(runs))
    found = {feed: tables(spark, lab.settings, feed) for feed in FEEDS}
    assert found["forwards"] == straight
    assert found["backwards"] == straight
    assert len(straight["current"]) == len(log.final_rows(log.table(TABLE)))
    # What is done stays done: again from its beginning, and from its middle.
    lab.await_that(lab.backfills_ended)
    lab.backfill("backwards", "--run-backwards", "--reprocess-behavior", "completed")
    again = (
        "SELECT count(*) FROM dag_run r JOIN backfill b ON b.id = r.backfill_id WHERE b.dag_id = 'backwards'"
    )
    assert lab.asked(f"{again} AND b.reprocess_behavior = 'completed'") == [(HOURS,)], "each window, not one"
    first = [BEGIN.isoformat(), "--end-date", BEGIN.isoformat()]
    lab.cli("tasks", "clear", "forwards", "-t", "^normalize$", "-d", "-y", "--start-date", *first)
    lab.await_that(lab.all_done(runs))
    assert {feed: tables(spark, lab.settings, feed) for feed in FEEDS} == found


def in_one_window(spark: SparkSession, settings: Settings) -> dict[str, list[str]]:
    """The tables of a third feed, which this process runs: both hours at once."""
    feed = named_feed(settings.feeds, FEEDS[0]).model_copy(update={"feed": "straight"})
    run(session_of(spark, settings), feed, Window(start=BEGIN, end=BEGIN + HOURS * HOUR))
    return tables(spark, settings, feed.feed)


def tables(spark: SparkSession, settings: Settings, feed: str) -> dict[str, list[str]]:
    """The rows of each published table, without what says in which run they were written."""
    session = session_of(spark, settings)
    return {
        kind: sorted(
            repr({k: v for k, v in row.asDict(recursive=True).items() if k not in OF_THE_RUN})
            for row in session.table(name).collect()
        )
        for kind, name in TableNames.of(feed, TABLE)._asdict().items()
    }
