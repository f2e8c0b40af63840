"""Alerts: when a task has failed for good, and when a run is late: to the log, and to a webhook."""

from __future__ import annotations

import json
import logging
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from changeledger.config.feed import Feed
from changeledger.config.folders import private_home
from changeledger.config.settings import Settings
from changeledger.model.errors import ChangeledgerError
from changeledger.model.window import Window
from changeledger.orchestration.windows import resolve_window

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger("changeledger.alerts")

_TIMEOUT_SECONDS = 10.0


def on_failure(feed: Feed) -> Callable[[Context], None]:
    """The callback of a feed's tasks; Airflow calls it once no retry is left."""

    def failed(context: Context) -> None:
        window = _window(feed, context)
        ti = context["ti"]
        event: dict[str, Any] = {
            "event": "failed",
            "feed": feed.feed,
            "window": None if window is None else window.id,
            "stage": ti.task_id,
            "rules": [],
            "error": str(context.get("exception") or ""),
            "link": getattr(ti, "log_url", None),
        }
        if window is not None:
            event["rules"] = _settle(feed, window, ti.task_id)
            _save_failure(feed, window, ti, event["error"])
        alert(event)

    return failed


def on_job_failure(
    job: str, page: Callable[[Settings], Path] | None = None, **whose: str
) -> Callable[[Context], None]:
    """The callback of what is done beside a feed's windows; `whose` names the feed or the database.

    The `page` that the job writes says so, where the job itself was not able to: killed, or never begun.
    """

    def failed(context: Context) -> None:
        error, link = str(context.get("exception") or ""), getattr(context["ti"], "log_url", None)
        if page is not None:
            _note(page(Settings()), getattr(context["ti"], "start_date", None), error)
        alert({"event": "failed", **whose, "stage": job, "error": error, "link": link})

    return failed


def _note(page: Path, started: datetime | None, error: str) -> None:
    from changeledger.pages.html import note_failure  # noqa: PLC0415 - templates: DAG files are parsed often

    is_written = page.exists() and started is not None and page.stat().st_mtime >= started.timestamp()
    if not is_written:
        note_failure(page, f"{error}. The task's log says more.")


def late(feed: str, context: Mapping[str, Any]) -> None:
    """Of a run that has not ended in time. Runs of a backfill wait for each other: that is no news."""
    run = context.get("dag_run") or {}
    if run.get("run_type") != "backfill":
        alert({"event": "late", "feed": feed, "run": run.get("dag_run_id"), "since": run.get("queued_at")})


def late_sources(feed: Feed, window: Window) -> None:
    """Of a run that has succeeded and yet could not read on: what it saw waits for longer than allowed."""
    from changeledger.control import ControlStore  # noqa: PLC0415 - SQLAlchemy: DAG files are parsed often

    try:
        states = ControlStore(Settings().control_url).source_states(feed.feed).values()
    except ChangeledgerError as error:
        log.warning("%s", error)
        return
    late = [state for state in states if state.is_late(state.at, feed.deadline)]
    if late:
        since = min(state.since for state in late if state.since)
        waiting = [state.text() for state in late]
        alert({"event": "late", "feed": feed.feed, "window": window.id, "since": since, "waiting": waiting})


def alert(what: Mapping[str, Any]) -> None:
    """To the log, and as JSON to CHANGELEDGER_ALERT_URL where it is set."""
    # On one line: an error's remedy is on one of its own.
    log.error(
        "%s", " ".join(f"{name}={' '.join(str(value).split())}" for name, value in what.items() if value)
    )
    url = Settings().alert_url
    if not url:
        return
    lines = [f"{name}: {value}" for name, value in what.items() if value]
    # `text` is what the usual chat services show.
    body = json.dumps({**what, "text": "\n".join(["changeledger", *lines])}, default=str).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - the user's
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS):  # noqa: S310
            pass
    except (urllib.error.URLError, TimeoutError, ValueError) as error:
        # Not the URL: who has it can write to the channel.
        log.warning("the webhook of CHANGELEDGER_ALERT_URL was not reached: %s", type(error).__name__)


def _window(feed: Feed, context: Context) -> Window | None:
    try:
        return resolve_window(feed, context["params"], context["dag_run"])
    except (ChangeledgerError, KeyError, AttributeError):
        # It was refused; or Airflow reports a task that it has lost, without its run.
        return None


def _save_failure(feed: Feed, window: Window, ti: Any, error: str) -> None:
    """For `status`, where the job itself has not said why: it was killed, or never begun."""
    from changeledger.control import ControlStore  # noqa: PLC0415 - SQLAlchemy: DAG files are parsed often

    private_home(Settings().home)
    try:
        control = ControlStore(Settings().control_url)
        began = getattr(ti, "start_date", None) or datetime.now(UTC)
        if not control.failed_since(feed.feed, ti.task_id, began):
            control.save_failure(feed.feed, window, ti.task_id, error or "it was ended from outside")
    except ChangeledgerError as failure:
        log.warning("%s", failure)


def _settle(feed: Feed, window: Window, stage: str) -> list[str]:
    """The rules that stopped an audit. Nobody will continue with the run: the feed's other runs may."""
    from changeledger.control import ControlStore  # noqa: PLC0415 - SQLAlchemy: DAG files are parsed often

    try:
        control = ControlStore(Settings().control_url)
        control.release_lease(feed.feed, window.holder)
        audits = control.audits(feed.feed, window) if stage == "audit" else []
    except ChangeledgerError as error:
        log.warning("%s", error)
        return []
    return [f"{a.table}: {a.rule} ({a.violations})" for a in audits if a.detail["stops"]]
