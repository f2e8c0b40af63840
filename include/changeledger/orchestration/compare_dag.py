"""The daily DAG of a database that several feeds tell: do they agree?"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from airflow.sdk import DAG, CronDataIntervalTimetable, Param

from changeledger.config import Feed
from changeledger.databases import Database
from changeledger.orchestration.feed_dag import POOL, RETRYING
from changeledger.orchestration.job_operator import JobOperator
from changeledger.orchestration.links import ReportLink

_DOC = """\
### compare_{database}: do the feeds of `{database}` agree?

Compares {others} with the reference, {reference}, change by change, up to what all of
them have seen, from where the last comparison ended. What is found is in the lake's table
`lake.changeledger.findings`; the task's link leads to the report.

**When it fails** with `FeedsDisagree`, nothing that is published is touched. The last lines of
the log say which feed, which table and how much; the report says where and since when. Find out
which of the two tools is wrong, let its feed read again what it missed (trigger its DAG with
`start` and `end`), and trigger this DAG with `again`, which compares everything from the beginning.
What may differ is said by `compare:` in the database's YAML.
"""


def compare_dag(database: Database, feeds: Mapping[str, Feed], schedule: str = "30 4 * * *") -> DAG:
    reference, others = database.compared(feeds)
    names = ", ".join(feed.feed for feed in others)
    with DAG(
        dag_id=database.comparison,
        description=f"{names} against {reference.feed}, change by change",
        doc_md=_DOC.format(database=database.database, others=names, reference=reference.feed),
        schedule=CronDataIntervalTimetable(schedule, timezone="UTC"),
        start_date=datetime(2020, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        tags=["changeledger", "compare", database.database],
        default_args={"owner": database.owner, "pool": POOL, **RETRYING},
        params={
            "again": Param(
                False, type="boolean", title="Again", description="compare all there is, not only what is new"
            )
        },
    ) as dag:
        task = JobOperator(
            task_id="compare",
            job="compare",
            arguments=["--database", database.database, "--again", "{{ params.again | lower }}"],
            name=f"changeledger-compare-{database.database}",
            spark_connection=reference.spark_connection,
        )
        task.operator_extra_links = (ReportLink(),)
    return dag
