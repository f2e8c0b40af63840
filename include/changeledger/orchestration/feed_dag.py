"""One Airflow DAG per feed: five stages in a line, over the run's window."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import (
    DAG,
    CronDataIntervalTimetable,
    chain,
)
from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from changeledger.config.feed import Feed
from changeledger.model.window import STAGES
from changeledger.orchestration import alerts, assets, form
from changeledger.orchestration.docs import doc_md
from changeledger.orchestration.stage_operator import StageOperator

# How many Spark jobs run at once, of all feeds: `airflow pools set changeledger 2 "Spark jobs at once"`.
POOL = "changeledger"

RETRYING = {
    "retries": 2,
    "retry_delay": timedelta(minutes=1),
    # A factor: the second retry waits twice as long as the first.
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": timedelta(minutes=15),
}


def feed_dag(feed: Feed) -> DAG:
    """The DAG named after the feed. Made in a `with`, it registers itself with the file that calls."""
    with DAG(
        dag_id=feed.feed,
        description=f"{feed.dialect} of {feed.database}: extract, prove, publish",
        doc_md=doc_md(feed),
        schedule=CronDataIntervalTimetable(feed.schedule, timezone="UTC"),
        start_date=datetime(2020, 1, 1, tzinfo=UTC),
        catchup=False,
        # They wait for the feed's lease, one after the other; one that cannot be run is refused meanwhile.
        max_active_runs=4,
        tags=["changeledger", feed.dialect, feed.database],
        default_args={
            "owner": feed.owner,
            "pool": POOL,
            # Who is further gets the pool first: runs that wait for the feed must not keep out who has it.
            "weight_rule": "upstream",
            "on_failure_callback": alerts.on_failure(feed),
            "execution_timeout": feed.execution_timeout,
            **RETRYING,
        },
        # From when it was due, so that a run which cannot even begin is reported, too.
        deadline=DeadlineAlert(
            name="late",
            reference=DeadlineReference.DAGRUN_QUEUED_AT,
            interval=feed.deadline,
            callback=SyncCallback(alerts.late, {"feed": feed.feed}),
        ),
        params=form.params(feed),
    ) as dag:
        chain(*(_task(feed, stage) for stage in STAGES))
    return dag


def _task(feed: Feed, stage: str) -> StageOperator:
    return StageOperator(
        task_id=stage,
        stage=stage,
        feed=feed,
        source_connection=feed.connection,
        spark_connection=feed.spark_connection,
        inlets=assets.sources(feed) if stage == "extract" else [],
        outlets=assets.published(feed) if stage == "publish" else [],
    )
