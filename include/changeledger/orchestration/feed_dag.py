"""The Airflow DAG of a feed: five stages in a row, over the run's window."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, CronDataIntervalTimetable, chain
from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from changeledger.config.feed import Feed
from changeledger.model.window import STAGES
from changeledger.orchestration import alerts, assets, form
from changeledger.orchestration.stage_operator import StageOperator

# Limits the Spark jobs of all feeds: `airflow pools set changeledger 2 "Spark jobs at once"`.
POOL = "changeledger"

RETRYING = {
    "retries": 2,
    "retry_delay": timedelta(minutes=1),
    # A factor: the second retry waits twice as long as the first.
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": timedelta(minutes=15),
}


# What Airflow shows beside the DAG, for the person on call.
_DOC = """\
### {feed.feed}: {feed.dialect} of `{feed.database}`

Publishes the changes of these tables to the lake, namespace `{feed.namespace}`:

{tables}

Nothing is published before the audit has passed, and then all tables or none. **Whatever is red here, readers
see the last release, whole.** No record is lost by waiting: the next run begins where the last release ended.

#### A task is red
The last lines of its log say what is wrong and the remedy. A retried task met something that passes
(a source that is away); one that was not retried needs a person.

| task | what it does | when it fails |
|---|---|---|
| extract | reads the window's records as they are | the source is away (retried), or no longer has \
the next position: the log names it |
| normalize | every record becomes a change or gets another disposition | the contract of a table \
changed in a way that the lake cannot follow |
| reconcile | orders changes, builds current and history rows on the window's branch | see the log |
| audit | checks the branch | a rule failed: the log and the task's link **Data Docs** name rule, count \
and rows; the branch is kept |
| publish | release row, then all tables | clear the task: it completes what was begun |

1. Correct what the log names (the feed's YAML, a connection, the source).
2. **Clear** the red task with what follows it: as often as you like, a window always reads the same \
records. If the log asks for it, clear from normalize.
3. The runs after it wait, or have failed for the same reason: clear those, too, in any order.

#### Nothing is red, but
- *up for reschedule*: another run of the feed is running (its lease); the log says which. It retries \
automatically.
- *all but extract skipped*: the window had nothing new, or is released already.
- *scheduled and never queued*: the pool `changeledger` is missing or full: \
`airflow pools set changeledger 2 "Spark jobs at once"`.
- *no new run*: the DAG is paused, or the feed's YAML cannot be read: `settings_errors.py` then has an \
import error, which names file and setting (shown above the list of DAGs).

#### By hand
| wanted | how |
|---|---|
| what is new, now | trigger it as it is |
| a time again, or long ago | mode `window` with start and end |
| some tables again, over what is released | mode `window`, and the tables |
| quarantined records, after a fix | mode `replay` |
| rows that a verification found wrong | read its page, then mode `repair` |
| to see whether it would pass | `dry run` |
| to publish in spite of a failed rule | mode `window` over the same times, `tolerate` and a reason |
| many hours | a backfill, or one wide `window`, which is quicker |

Source: connection `{feed.connection}` · Spark: connection `{feed.spark_connection}` · owner: {feed.owner}
"""


def feed_dag(feed: Feed) -> DAG:
    """Returns the DAG named after the feed. Its `with` block registers it with the calling DAG file."""
    tables = "\n".join(
        f"- `{t.table}`" + (f" (key {', '.join(t.key)})" if t.key else "") for t in feed.tables
    )
    with DAG(
        dag_id=feed.feed,
        description=f"{feed.dialect} of {feed.database}: extract, prove, publish",
        doc_md=_DOC.format(feed=feed, tables=tables),
        schedule=CronDataIntervalTimetable(feed.schedule, timezone="UTC"),
        start_date=datetime(2020, 1, 1, tzinfo=UTC),
        catchup=False,
        # The runs wait for the feed's lease in turn. Meanwhile, one that cannot be run is refused.
        max_active_runs=4,
        tags=["changeledger", feed.dialect, feed.database],
        default_args={
            "owner": feed.owner,
            "pool": POOL,
            # The most advanced run gets the pool first: runs that wait for the feed must not block it.
            "weight_rule": "upstream",
            "on_failure_callback": alerts.on_failure(feed),
            "execution_timeout": feed.execution_timeout,
            **RETRYING,
        },
        # Counted from when the run was due, so that a run that cannot even begin is reported, too.
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
