"""The DAGs of a database: one compares its feeds with each other, one verifies what they have published.

Each has one task, which writes a page. They run daily and when one of their feeds has published.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from airflow.sdk import DAG, AssetAny, AssetOrTimeSchedule, CronTriggerTimetable, Param

from changeledger.config.database import AUTO, FRESH, REUSE, Database
from changeledger.config.feed import Feed
from changeledger.config.object_path import PagePath
from changeledger.config.settings import Settings
from changeledger.orchestration import alerts, links
from changeledger.orchestration.assets import CHANGES, CURRENT, HISTORY, published
from changeledger.orchestration.feed_dag import POOL, RETRYING
from changeledger.orchestration.job_operator import JobOperator
from changeledger.orchestration.links import ReportLink

_COMPARE = """\
### compare_{database}: do the feeds of `{database}` agree?

Compares {others} with the reference, {reference}, change by change, up to what all of
them have seen, from where the last comparison ended. It runs daily, and when a feed has published.
**[The report]({report})** says how the last comparison ended; every finding is a row of the lake's table
`lake.changeledger.findings`.

**When it fails** with `FeedsDisagree`, the published tables stay as they are. The last lines of the log
name feed, table and number of changes; the report shows where and since when. Find out which of the two
tools is wrong, and let its feed read again what it missed (trigger its DAG with `start` and `end`). Each run
compares that part of the log again and fails until the feeds agree on it, or until somebody accepts it:
on the page Agreement of **Ledger**, or by `changeledger compare {database} --accept REASON`. `compare:` in
the database's YAML says what may differ.
"""
_VERIFY = """\
### verify_{database}: does the published data match `{database}`?

Once a day the tables of {feeds} are read from the source and compared with what each feed has published:
hashes of many rows first, single rows where these differ. Changes made meanwhile are no faults. The first
release starts the first reading. Connection: {connection}. Rows that a feed's topic delivers again, by
another snapshot, are compared with what it had published before.
**[The page]({page})** has the last proof of each table.

A difference counts once a feed's windows have ended {grace_period} after the reading. Until then the outcome
is `waiting`, and the run is green: after a feed has published, it continues with what was read.

**When it fails** with `PublishedDrifts`, the published tables stay as they are. The last lines of the log
name feed, table and number of rows; the page shows what each row is, what it should be, since which change,
and which changes would correct it. First check whether the other feeds have the same rows wrong:

| | |
|---|---|
| one feed has | its tool lost or changed something: `compare_{database}` shows where; look into the feed's \
quarantine; let it read that time again |
| all have | the rows were changed where no capture sees it: a restore, a switched partition, a table \
whose capture was off |
| rows are `missing` that nobody has changed for long | the feed began without a snapshot |
| a capture tool lags more than `grace_period:` allows | raise it in the database's YAML |

Then trigger this DAG with *snapshot: fresh*, which reads the source again.
"""

_NO_SOURCE = "none, so the source is not read; name one under `verify:` in the database's YAML"

_SNAPSHOTS = {
    AUTO: "auto: if no snapshot waits for its proof",
    FRESH: "fresh: now, even if a snapshot waits",
    REUSE: "reuse: never, only continue with what was read",
}


def compare_dag(database: Database, feeds: Mapping[str, Feed]) -> DAG:
    reference, others = database.compared(feeds)
    names = ", ".join(feed.feed for feed in others)
    work = _Work(
        job="compare",
        dag_id=database.comparison,
        description=f"{names} against {reference.feed}, change by change",
        doc_md=_COMPARE.format(
            database=database.database,
            others=names,
            reference=reference.feed,
            report=links.report(database.comparison),
        ),
        arguments=["--full", "{{ params.full | lower }}"],
        params={
            "full": Param(
                False, type="boolean", title="Full", description="Compare everything, not only what is new."
            )
        },
        daily="30 4 * * *",
        page=database.report,
        reads=[CHANGES],
    )
    return _database_dag(database, [reference, *others], work)


def verify_dag(database: Database, feeds: Mapping[str, Feed]) -> DAG:
    source, chosen = database.verified(feeds)
    connection = None if source is None else source.connection
    names = ", ".join(feed.feed for feed in chosen)
    work = _Work(
        job="verify",
        dag_id=database.verification,
        description=f"{names} against rows of the source",
        doc_md=_VERIFY.format(
            database=database.database,
            feeds=names,
            page=links.report(database.verification),
            connection=_NO_SOURCE if connection is None else f"`{connection}`",
            grace_period="-" if source is None else source.grace_period,
        ),
        arguments=[
            "--snapshot",
            "{{ 'reuse' if dag_run.run_type == 'asset_triggered' else params.snapshot }}",
        ],
        params={
            "snapshot": Param(
                AUTO,
                type="string",
                title="Read the source",
                enum=list(_SNAPSHOTS),
                values_display=_SNAPSHOTS,
                description=(
                    "A run that a feed's release has started reads the source only if no run has read it yet."
                ),
            )
        },
        daily="30 5 * * *",
        page=database.proofs,
        reads=[CURRENT, HISTORY],
        source_connection=connection,
    )
    return _database_dag(database, chosen, work)


class _Work(NamedTuple):
    """A job for a database. `job` names its script, its task and its tag."""

    job: str
    dag_id: str
    description: str
    doc_md: str
    arguments: Sequence[str]
    params: Mapping[str, Param]
    # Cron, UTC.
    daily: str
    # The page that it writes.
    page: Callable[[Settings], PagePath]
    # The kinds of published tables that it reads.
    reads: Sequence[str]
    source_connection: str | None = None


def _database_dag(database: Database, feeds: Sequence[Feed], work: _Work) -> DAG:
    """Returns the DAG. `feeds`: the feeds that it looks at; it runs on the Spark of the first."""
    with DAG(
        dag_id=work.dag_id,
        description=work.description,
        doc_md=work.doc_md,
        schedule=AssetOrTimeSchedule(
            timetable=CronTriggerTimetable(work.daily, timezone="UTC"),
            # One asset of each feed is enough: a release updates all of the feed's tables.
            assets=AssetAny(*(published(feed, CURRENT)[0] for feed in feeds)),
        ),
        start_date=datetime(2020, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        tags=["changeledger", work.job, database.database],
        default_args={
            "owner": database.owner,
            "pool": POOL,
            **alerts.callbacks_of_job(work.job, database.notify, work.page, database=database.database),
            "execution_timeout": max(feed.execution_timeout for feed in feeds),
            **RETRYING,
        },
        params=dict(work.params),
    ) as dag:
        task = JobOperator(
            task_id=work.job,
            job=work.job,
            arguments=["--database", database.database, *work.arguments],
            name=f"changeledger-{work.job}-{database.database}",
            spark_connection=feeds[0].spark_connection,
            source_connection=work.source_connection,
            inlets=[asset for feed in feeds for asset in published(feed, *work.reads)],
        )
        task.operator_extra_links = (ReportLink(),)
    return dag
