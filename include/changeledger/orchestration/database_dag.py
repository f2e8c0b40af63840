"""What the DAGs of a database share: one task with a page, daily and when one of its feeds has published."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from airflow.sdk import DAG, AssetAny, AssetOrTimeSchedule, CronTriggerTimetable, Param

from changeledger.config.database import Database
from changeledger.config.feed import Feed
from changeledger.config.object_path import PagePath
from changeledger.config.settings import Settings
from changeledger.orchestration import alerts
from changeledger.orchestration.assets import CURRENT, published
from changeledger.orchestration.feed_dag import POOL, RETRYING
from changeledger.orchestration.job_operator import JobOperator
from changeledger.orchestration.links import ReportLink


class Work(NamedTuple):
    """One of the things done for a database: `job` is its script, its task and its tag."""

    job: str
    dag_id: str
    description: str
    doc_md: str
    arguments: Sequence[str]
    params: Mapping[str, Param]
    # Cron, UTC.
    daily: str
    # What it writes.
    page: Callable[[Settings], PagePath]
    # Which of the published tables it reads.
    reads: Sequence[str]
    source_connection: str | None = None


def database_dag(database: Database, feeds: Iterable[Feed], work: Work) -> DAG:
    """`feeds`: those that it looks at; the first one's Spark does the work."""
    looked_at = list(feeds)
    with DAG(
        dag_id=work.dag_id,
        description=work.description,
        doc_md=work.doc_md,
        schedule=AssetOrTimeSchedule(
            timetable=CronTriggerTimetable(work.daily, timezone="UTC"),
            # One of each feed: a release updates all of its tables.
            assets=AssetAny(*(published(feed, CURRENT)[0] for feed in looked_at)),
        ),
        start_date=datetime(2020, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        tags=["changeledger", work.job, database.database],
        default_args={
            "owner": database.owner,
            "pool": POOL,
            **_callbacks(database, work),
            "execution_timeout": max(feed.execution_timeout for feed in looked_at),
            **RETRYING,
        },
        params=dict(work.params),
    ) as dag:
        task = JobOperator(
            task_id=work.job,
            job=work.job,
            arguments=["--database", database.database, *work.arguments],
            name=f"changeledger-{work.job}-{database.database}",
            spark_connection=looked_at[0].spark_connection,
            source_connection=work.source_connection,
            inlets=[asset for feed in looked_at for asset in published(feed, *work.reads)],
        )
        task.operator_extra_links = (ReportLink(),)
    return dag


def _callbacks(database: Database, work: Work) -> dict[str, Any]:
    whose = {"database": database.database}
    return {
        "on_failure_callback": alerts.on_job_failure(work.job, database.notify, work.page, **whose),
        "on_success_callback": alerts.on_job_success(work.job, database.notify, **whose),
    }
