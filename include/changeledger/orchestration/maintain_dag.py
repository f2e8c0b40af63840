"""The weekly DAG that keeps the lake small, with one task for each feed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from airflow.sdk import DAG, CronDataIntervalTimetable

from changeledger.config.feed import Feed
from changeledger.orchestration import alerts
from changeledger.orchestration.feed_dag import POOL, RETRYING
from changeledger.orchestration.job_operator import JobOperator

_DOC = """\
### maintain: compact small files, remove old snapshots

For every feed, once a week: data files are compacted; release tags and snapshots that are older than the
feed's `retention` are dropped, except the newest release; branches that no run continues, files of no
snapshot, and raw rows, Data Docs and verdicts beyond `raw_retention` and `docs_retention` are removed.

It holds the feed's lease, and waits for a run that has it. While a window is built and not released (an
audit that waits for a person), its feed is not compacted: its branch could not be published any more.
Nothing that an open window needs is removed.

**When a task fails**: nothing is lost, readers see what they saw. Read the last lines of its log, and clear
it.
"""


def maintain_dag(feeds: Iterable[Feed]) -> DAG:
    with DAG(
        dag_id="maintain",
        description="Compact files, expire snapshots, remove orphan files",
        doc_md=_DOC,
        schedule=CronDataIntervalTimetable("0 3 * * 0", timezone="UTC"),
        start_date=datetime(2020, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        tags=["changeledger", "maintenance"],
        default_args={"owner": "data-engineering", "pool": POOL, **RETRYING},
    ) as dag:
        for feed in feeds:
            JobOperator(
                task_id=feed.feed,
                job="maintain",
                arguments=["--feed", feed.feed, "--run", "{{ run_id }}"],
                name=f"changeledger-{feed.feed}-maintain",
                spark_connection=feed.spark_connection,
                execution_timeout=feed.execution_timeout,
                **alerts.callbacks_of_job("maintain", feed.notify, feed=feed.feed),
            )
    return dag
