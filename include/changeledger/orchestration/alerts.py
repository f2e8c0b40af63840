"""Alerts in the log and by notifiers: failures, lateness, quarantine, recovery.

Each message says what it is about (`subject`), what has happened, since when, the first row that is wrong,
and where to look: `link` is Airflow's page of the task or run, and `page` the ledger's with cause and remedy.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from changeledger.config.feed import Feed
from changeledger.config.files import named_feed
from changeledger.config.folders import private_home
from changeledger.config.notify import Event, Notify
from changeledger.config.object_path import PagePath
from changeledger.config.settings import Settings
from changeledger.model.errors import ChangeledgerError, FeedsDisagree, PublishedDrifts
from changeledger.model.window import Window
from changeledger.orchestration import notifiers
from changeledger.orchestration.links import ledger_page, run_page
from changeledger.orchestration.windows import resolve_window

if TYPE_CHECKING:
    from airflow.sdk import Context

    from changeledger.control import AuditRow, ControlStore

log = logging.getLogger("changeledger.alerts")

# Events of errors that say more than that a job has failed, by the error's name.
_OF_ERRORS: Final[Mapping[str, Event]] = {
    FeedsDisagree.__name__: "disagreeing", PublishedDrifts.__name__: "drifting",
}  # fmt: skip
# The audit's rule that counts quarantined records and shows the first ones.
_QUARANTINED: Final = "no_quarantined_records"
Known = TypeVar("Known")


def on_failure(feed: Feed) -> Callable[[Context], None]:
    """Returns the failure callback of a feed's tasks. Airflow calls it when no retry is left."""

    def failed(context: Context) -> None:
        window, ti = _window(feed, context), context["ti"]
        error = str(context.get("exception") or "")
        audits: list[AuditRow] = []
        if window is not None:
            holder = window.holder
            # This run does not continue, so the feed's other runs may.
            _as_far_as_known(lambda: _control().leases.release(feed.feed, holder))
            audits = _audits(feed, window) if ti.task_id == "audit" else []
            _save_failure(feed, window, ti, error)
        stopping = [a for a in audits if a.detail["stops"]]
        told = {
            "feed": feed.feed,
            "window": None if window is None else window.id,
            "stage": ti.task_id,
            "since": _since(feed.feed, "failed"),
            "rules": [a.summary for a in stopping],
            "first": _first(stopping),
            "error": error,
        }
        alert(feed.notify, "failed", feed.feed, told, context)
        if window is not None and ti.task_id == "audit":
            _quarantined(feed, window, audits, context)

    return failed


def callbacks_of_job(
    job: str, notify: Sequence[Notify], page: Callable[[Settings], PagePath] | None = None, **whose: str
) -> dict[str, Any]:
    """Returns the callbacks of a job outside a feed's windows. `whose` names the feed or the database.

    A failure is written to the job's `page` if the job could not: it was killed, or never started.
    """
    subject = "_".join([job, *whose.values()])

    def failed(context: Context) -> None:
        error = str(context.get("exception") or "")
        if page is not None:
            _note(page(Settings()), getattr(context["ti"], "start_date", None), error)
        event = _OF_ERRORS.get(error.partition(":")[0], "failed")
        told = {**whose, "stage": job, "since": _since(subject, event), "error": error}
        alert(notify, event, subject, told, context)

    def succeeded(context: Context) -> None:
        recovered(notify, subject, {**whose, "stage": job}, context)

    return {"on_failure_callback": failed, "on_success_callback": succeeded}


def _note(page: PagePath, started: datetime | None, error: str) -> None:
    from changeledger.pages.html import note_failure  # noqa: PLC0415 - templates: DAG files are parsed often

    is_written = page.exists() and started is not None and page.stat().st_mtime >= started.timestamp()
    if not is_written:
        note_failure(page, f"{error}. The task's log says more.")


def late(feed: str, context: Mapping[str, Any]) -> None:
    """Reports a run that has not ended in time. Ignores runs of a backfill, which wait for each other."""
    run = context.get("dag_run") or {}
    if run.get("run_type") == "backfill":
        return
    notify = _as_far_as_known(lambda: named_feed(feed).notify) or ()
    told = {
        "feed": feed,
        "run": run.get("dag_run_id"),
        "since": run.get("queued_at"),
        "link": run_page(feed, run.get("dag_run_id")),
    }
    alert(notify, "late", feed, told, {})


def ended(feed: Feed, window: Window, stage: str, context: Mapping[str, Any], *, is_last: bool) -> None:
    """Sends the alerts that are due after a successful stage. `is_last`: the run ends with it."""
    if stage == "extract":
        _late_sources(feed, window, context)
    if stage == "audit":
        _quarantined(feed, window, _audits(feed, window), context)
    if is_last:
        recovered(feed.notify, feed.feed, {"feed": feed.feed, "window": window.id}, context)


def _late_sources(feed: Feed, window: Window, context: Mapping[str, Any]) -> None:
    """Reports records that wait at the source longer than allowed, although the run has succeeded."""
    states = _as_far_as_known(lambda: _control().sources.states(feed.feed)) or {}
    waiting = [state for state in states.values() if state.is_late(state.at, feed.deadline)]
    if waiting:
        since = min(state.since for state in waiting if state.since)
        told = {
            "feed": feed.feed,
            "window": window.id,
            "since": since,
            "waiting": [s.text() for s in waiting],
        }
        alert(feed.notify, "late", feed.feed, told, context)


def _quarantined(feed: Feed, window: Window, audits: Sequence[AuditRow], context: Mapping[str, Any]) -> None:
    """Reports, once for each window, that more records are quarantined than a notifier tolerates."""
    rules = [a for a in audits if a.rule == _QUARANTINED]
    count = sum(a.violations for a in rules)
    notify = [notifier for notifier in feed.notify if count > notifier.quarantined_above]
    if not count or not notify:
        return
    told = {
        "feed": feed.feed,
        "window": window.id,
        "since": window.start,
        "records": count,
        "first": _first(rules),
        "look": f"changeledger quarantine list {feed.feed}",
    }
    alert(notify, "quarantined", feed.feed, told, context)


def recovered(
    notify: Sequence[Notify], subject: str, told: Mapping[str, Any], context: Mapping[str, Any]
) -> None:
    """Reports the recovery, once after a failure that was reported."""
    since = _as_far_as_known(lambda: _control().notices.recovered(subject))
    if since is not None:
        alert(notify, "recovered", subject, {**told, "since": since}, context)


def alert(
    notify: Sequence[Notify],
    event: Event,
    subject: str,
    what: Mapping[str, Any],
    context: Mapping[str, Any],
) -> None:
    """Writes to the log, and calls the notifiers of the event. The default of `link` is the task's log."""
    link = what.get("link", getattr(context.get("ti"), "log_url", None))
    told = {"event": event, **what, "link": link, "page": ledger_page(event, what)}
    # On one line, because an error's remedy is on a line of its own.
    line = " ".join(f"{name}={' '.join(str(value).split())}" for name, value in told.items() if value)
    log.log(logging.INFO if event == "recovered" else logging.ERROR, "%s", line)
    for notifier in notify:
        if event in notifier.on:
            notifiers.tell(notifier, {**told, "subject": subject}, context)


def _as_far_as_known(ask: Callable[[], Known]) -> Known | None:
    """Returns the answer, or None if stores or settings raise an error: the rest is reported anyway."""
    try:
        return ask()
    except ChangeledgerError as error:
        log.warning("%s", error)
        return None


def _control() -> ControlStore:
    from changeledger.control import ControlStore  # noqa: PLC0415 - SQLAlchemy: DAG files are parsed often

    private_home(Settings().home)
    return ControlStore(Settings().control_url)


def _since(subject: str, event: Event) -> datetime | None:
    """Notes that people are told now, and returns since when the subject fails."""
    return _as_far_as_known(lambda: _control().notices.note(subject, event))


def _first(audits: Sequence[AuditRow]) -> str | None:
    """Returns the first row that breaks one of these rules, without values if the installation hides them."""
    return next((a.detail["first"] for a in audits if a.detail.get("first")), None)


def _window(feed: Feed, context: Context) -> Window | None:
    try:
        return resolve_window(feed, context["params"], context["dag_run"])
    except (ChangeledgerError, KeyError, AttributeError):
        # The window was refused, or Airflow reports a lost task without its run.
        return None


def _save_failure(feed: Feed, window: Window, ti: Any, error: str) -> None:
    """Saves the failure for `status` if the job itself has not: it was killed, or never started."""
    began = getattr(ti, "start_date", None) or datetime.now(UTC)

    def save() -> None:
        failures = _control().failures
        if not failures.failed_since(feed.feed, ti.task_id, began):
            failures.save(feed.feed, window, ti.task_id, error or "it was ended from outside")

    _as_far_as_known(save)


def _audits(feed: Feed, window: Window) -> list[AuditRow]:
    return _as_far_as_known(lambda: _control().audits.of_window(feed.feed, window.id)) or []
