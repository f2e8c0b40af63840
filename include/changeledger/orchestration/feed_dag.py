"""One Airflow DAG per feed: five stages in a line, over the run's window."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, CronDataIntervalTimetable, Param, chain
from airflow.sdk.exceptions import AirflowFailException

from changeledger.config import Feed, Window
from changeledger.orchestration.docs import doc_md
from changeledger.orchestration.stage_operator import StageOperator

if TYPE_CHECKING:
    from airflow.sdk.types import DagRunProtocol

STAGES = ("extract", "normalize", "reconcile", "audit", "publish")

_RETRYING = {
    "retries": 2,
    "retry_delay": timedelta(minutes=1),
    # A factor: the second retry waits twice as long as the first.
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": timedelta(minutes=15),
    "execution_timeout": timedelta(hours=2),
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
        max_active_runs=1,
        tags=["changeledger", feed.dialect, feed.database],
        default_args={"owner": feed.owner, **_RETRYING},
        params={
            "start": _moment_param("Start", "instead of the start of the data interval"),
            "end": _moment_param("End", "instead of the end of the data interval; not included"),
        },
        user_defined_macros={"window": _window_of(feed.schedule)},
    ) as dag:
        chain(*(_task(feed, stage) for stage in STAGES))
    return dag


def _moment_param(title: str, description: str) -> Param:
    return Param(None, title=title, description=description, type=["null", "string"], format="date-time")


def _task(feed: Feed, stage: str) -> StageOperator:
    return StageOperator(
        task_id=stage,
        stage=stage,
        feed=feed.feed,
        # Rendered from what the run has stored, so that a retry or a cleared task has the same window.
        start="{{ window(params, dag_run).start.isoformat() }}",
        end="{{ window(params, dag_run).end.isoformat() }}",
        source_connection=feed.connection,
        spark_connection=feed.spark_connection,
    )


def _window_of(schedule: str) -> Any:
    """The template function `window(params, dag_run)` of a DAG with that schedule."""

    def window(params: Mapping[str, Any], dag_run: DagRunProtocol) -> Window:
        start, end = dag_run.data_interval_start, dag_run.data_interval_end
        interval = None if start is None or end is None else (start, end)
        return resolve_window(params, interval, dag_run.run_after, schedule)

    return window


def resolve_window(
    params: Mapping[str, Any],
    interval: tuple[datetime, datetime] | None,
    run_after: datetime,
    schedule: str,
) -> Window:
    """What a run covers: the params, else its data interval, else the last full interval before it.

    The last is for runs that were triggered without a logical date: they have no interval.
    """
    start, end = params.get("start"), params.get("end")
    if (start is None) != (end is None):
        raise AirflowFailException("give both `start` and `end`, or neither")
    if start is not None and end is not None:
        return _window(_moment("start", start), _moment("end", end))
    if interval is not None:
        return _window(*interval)
    return _window(*_last_interval(schedule, run_after))


def _window(start: datetime, end: datetime) -> Window:
    if start >= end:
        raise AirflowFailException(
            f"the window {start.isoformat()} .. {end.isoformat()} is empty or reversed: "
            "trigger the DAG with `start` before `end`"
        )
    return Window(start=start.astimezone(UTC), end=end.astimezone(UTC))


def _moment(name: str, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise AirflowFailException(f"`{name}` is {text!r}; write for example 2026-01-31T05:00:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _last_interval(schedule: str, run_after: datetime) -> tuple[datetime, datetime]:
    # Airflow's scheduler side, which DAG files need not load.
    from airflow.timetables.interval import CronDataIntervalTimetable as Timetable  # noqa: PLC0415
    from pendulum import instance  # noqa: PLC0415

    inferred = Timetable(schedule, timezone="UTC").infer_manual_data_interval(run_after=instance(run_after))
    return inferred.start, inferred.end
