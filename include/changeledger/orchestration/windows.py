"""Determines the window of a run, whether by schedule, by hand, by an asset or by a backfill."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from changeledger.config.feed import Feed
from changeledger.model import moments
from changeledger.model.errors import ConfigError
from changeledger.model.window import Window
from changeledger.orchestration.form import request

if TYPE_CHECKING:
    from airflow.sdk.types import DagRunProtocol

# Runs for a data interval. For a run by hand Airflow makes one up: the last full one, which is old.
_WITH_INTERVAL = {"scheduled", "backfill"}


def resolve_window(feed: Feed, params: Mapping[str, Any], run: DagRunProtocol) -> Window:
    """Returns the window, using only what the run has stored, so that a retry or a cleared task has the same.

    - In the mode `window` it has the times of the params.
    - In a scheduled run or a backfill it is the data interval.
    - In a run by hand or by an asset it is the unfinished interval up to that time. What the run reads begins
      at the last release anyway.

    Raises ConfigError for a window that is empty, reversed or in the future.
    """
    asked = request(params, feed, run.run_id)
    interval = run.data_interval_start, run.data_interval_end
    if asked.mode == "window":
        start, end = (_moment(name, params[name]) for name in ("start", "end"))
    elif str(run.run_type) in _WITH_INTERVAL and None not in interval:
        start, end = interval  # type: ignore[assignment]
    else:
        start, end = _begun_interval(feed.schedule, run.run_after), run.run_after
    if start >= end:
        raise ConfigError(
            f"the window {start.isoformat()} .. {end.isoformat()} is empty or reversed",
            "trigger the DAG with `start` before `end`",
        )
    if end > run.run_after:
        raise ConfigError(
            f"the window ends at {end.isoformat()}, in the future: records that arrive until then would be "
            "missed",
            f"trigger the DAG with an `end` up to {run.run_after.isoformat()}, or later",
        )
    return Window(start=start.astimezone(UTC), end=end.astimezone(UTC), request=asked)


def _moment(name: str, text: str) -> datetime:
    try:
        return moments.in_utc(text)
    except ValueError:
        raise ConfigError(f"`{name}` is {text!r}", "write for example 2026-01-31T05:00:00Z") from None


def _begun_interval(schedule: str, moment: datetime) -> datetime:
    """Returns the start of the interval that contains the moment or ends with it."""
    # Imported here because it is of Airflow's scheduler, which DAG files do not need.
    from airflow.timetables.interval import CronDataIntervalTimetable as Timetable  # noqa: PLC0415
    from pendulum import instance  # noqa: PLC0415

    full = Timetable(schedule, timezone="UTC").infer_manual_data_interval(run_after=instance(moment))
    return full.end if full.end < moment else full.start
