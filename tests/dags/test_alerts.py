"""Alerts on tasks that have failed for good and on late runs.

A failed task also releases its feed's lease.
"""

from __future__ import annotations

import json
import os
import re
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email import message_from_string
from email.policy import default
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.bases.notifier import BaseNotifier

from changeledger.config.database import Database
from changeledger.config.feed import Feed
from changeledger.config.files import load_feeds
from changeledger.config.notify import Notify
from changeledger.config.settings import Settings
from changeledger.control import AuditResult, BuiltSnapshots, ControlStore
from changeledger.model.source_state import SourceState
from changeledger.orchestration import alerts
from changeledger.orchestration.notifiers import with_notifiers
from changeledger.orchestration.windows import resolve_window
from sourcelab.smtp import SmtpServer

FEED = load_feeds(Settings().feeds)["shop_cdc"]
SMTP = "airflow.providers.smtp.notifications.smtp.SmtpNotifier"
LEDGER = "http://airflow/plugin/ledger/changeledger"
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
RUN = SimpleNamespace(
    run_id="scheduled__1",
    run_type="scheduled",
    data_interval_start=NOON - timedelta(hours=1),
    data_interval_end=NOON,
    run_after=NOON,
)


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ControlStore:
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://airflow/")
    return ControlStore(Settings().control_url)


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    received: list[dict[str, Any]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("TEST_WEBHOOK", f"http://127.0.0.1:{server.server_port}/secret")
        yield received
        server.shutdown()


class Webhook(BaseNotifier):
    """A notifier as a provider ships it: its address is in a connection, here in the environment."""

    template_fields = ("body", "title", "told")

    def __init__(self, body: str, title: str = "", told: Any = None, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.body, self.title, self.told = body, title, told

    def notify(self, context: Any) -> None:
        told = {
            name: value for name, value in context["changeledger"].items() if name not in {"text", "html"}
        }
        said = {**told, "body": self.body, "title": self.title, "told": self.told}
        request = urllib.request.Request(os.environ["TEST_WEBHOOK"], json.dumps(said, default=str).encode())
        urllib.request.urlopen(request, timeout=5).close()


def told_by(**settings: Any) -> Notify:
    return Notify.model_validate({"notifier": f"{__name__}.Webhook", **settings})


def told(feed: Feed, **settings: Any) -> Feed:
    return feed.model_copy(update={"notify": (told_by(**settings),)})


def context(task: str, **members: Any) -> Any:
    ti = SimpleNamespace(task_id=task, log_url="http://airflow/logs")
    return {"ti": ti, "dag_run": RUN, "params": {}, "exception": RuntimeError("it broke"), **members}


def test_a_failed_audit_names_its_rules(
    control: ControlStore, reported: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    window = resolve_window(FEED, {}, RUN)  # type: ignore[arg-type]
    control.leases.acquire(FEED.feed, window.holder, 3600)
    verdicts = [
        AuditResult("dbo.parts", "order_strict", False, 3, {"stops": True, "first": "key={{ 7 * 7 }}"}),
        AuditResult("dbo.parts", "no_unpaired_images", False, 1, {"stops": False}),
        AuditResult("dbo.parts", "conservation", True, 0, {"stops": False}),
    ]
    control.audits.save(FEED.feed, window, verdicts, BuiltSnapshots("branch", {}))
    alerts.on_failure(told(FEED))(context("audit"))
    (message,) = reported
    body = message.pop("body")
    assert body.startswith("changeledger: shop_cdc failed\nfeed: shop_cdc\n")
    assert re.search(r"^since: [\d-]{10} [\d:]{8} UTC$", body, re.MULTILINE)
    assert datetime.fromisoformat(message.pop("since")) <= datetime.now(UTC)
    assert message == {
        "subject": "shop_cdc",
        "title": "changeledger: shop_cdc failed",
        "told": None,
        # A row's value is not rendered as a template.
        "first": "key={{ 7 * 7 }}",
        "event": "failed",
        "feed": "shop_cdc",
        "window": window.id,
        "stage": "audit",
        "rules": ["dbo.parts: order_strict (3)"],
        "error": "it broke",
        "link": "http://airflow/logs",
        "page": f"{LEDGER}/feeds/shop_cdc/windows/{window.id}",
    }
    assert "feed=shop_cdc" in caplog.text
    assert control.leases.of_feed(FEED.feed) is None, "the feed's next run need not wait for it"


def test_another_runs_lease_is_left_alone(control: ControlStore, reported: list[dict[str, Any]]) -> None:
    control.leases.acquire(FEED.feed, "another run", 3600)
    alerts.on_failure(told(FEED))(context("extract"))
    assert control.leases.of_feed(FEED.feed) is not None
    assert reported[0]["rules"] == []


@pytest.mark.parametrize("missing", [{"params": {"mode": "window"}}, {"dag_run": None}], ids=str)
def test_a_run_without_a_window_is_reported(
    control: ControlStore, reported: list[dict[str, Any]], missing: dict[str, Any]
) -> None:
    alerts.on_failure(told(FEED))(context("extract", **missing))
    assert reported[0]["window"] is None
    assert reported[0]["stage"] == "extract"


def test_a_webhook_that_does_not_answer(
    control: ControlStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TEST_WEBHOOK", "http://127.0.0.1:9/secret")
    alerts.on_failure(told(FEED))(context("extract"))
    assert "test_alerts.Webhook could not notify anybody: URLError" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("error", "event"),
    [
        ("it broke", "failed"),
        ("FeedsDisagree: a: 1 missing", "disagreeing"),
        ("PublishedDrifts: a", "drifting"),
    ],
)
def test_what_is_done_for_a_database_fails_and_recovers(
    control: ControlStore, reported: list[dict[str, Any]], error: str, event: str
) -> None:
    """Recovery is reported once. The second failure has the time of the first one."""
    callbacks = alerts.callbacks_of_job("verify", [told_by(on=[event, "recovered"])], database="shop")
    for _ in range(2):
        callbacks["on_failure_callback"](context("verify", exception=RuntimeError(error)))
    for _ in range(2):
        callbacks["on_success_callback"](context("verify"))
    assert [m["event"] for m in reported] == [event, event, "recovered"]
    assert len({m["since"] for m in reported}) == 1
    assert {name: reported[0][name] for name in ("database", "stage", "error", "link", "page")} == {
        "database": "shop", "stage": "verify", "error": error, "link": "http://airflow/logs",
        "page": f"{LEDGER}/agreement/shop",
    }  # fmt: skip


def test_quarantined_records_above_a_limit(control: ControlStore, reported: list[dict[str, Any]]) -> None:
    window = resolve_window(FEED, {}, RUN)  # type: ignore[arg-type]
    detail = {"stops": False, "first": "table=dbo.parts, reason=null_key"}
    verdicts = [AuditResult("feed shop_cdc", "no_quarantined_records", False, 3, detail)]
    control.audits.save(FEED.feed, window, verdicts, BuiltSnapshots("branch", {}))
    alerts.ended(told(FEED, quarantined_above=3), window, "audit", context("audit"), is_last=False)
    assert not reported
    alerts.ended(told(FEED, quarantined_above=2), window, "audit", context("audit"), is_last=False)
    (message,) = reported
    assert (message["event"], message["records"], message["first"]) == ("quarantined", 3, detail["first"])
    assert message["page"] == f"{LEDGER}/feeds/shop_cdc/quarantine?run={window.id}"


def test_a_feed_recovers_with_its_last_stage(control: ControlStore, reported: list[dict[str, Any]]) -> None:
    window = resolve_window(FEED, {}, RUN)  # type: ignore[arg-type]
    alerts.on_failure(told(FEED))(context("reconcile"))
    for stage, is_last in (("reconcile", False), ("publish", True), ("publish", True)):
        alerts.ended(told(FEED), window, stage, context(stage), is_last=is_last)
    assert [m["event"] for m in reported] == ["failed", "recovered"]


@pytest.mark.parametrize(
    ("notify", "said"),
    [
        (
            {"notifier": "airflow.providers.slack.notifications.slack.SlackNotifier"},
            "airflow-providers-slack",
        ),
        (
            {"notifier": "airflow.providers.smtp.notifications.smtp.SmtpNotifer"},
            "did you mean `SmtpNotifier`",
        ),
        ({"notifier": f"{SMTP}", "with": {"two": "a@b.c"}}, "no argument `two`\n.*did you mean `to`"),
        ({"notifier": f"{SMTP}"}, "missing 1 required positional argument: 'to'"),
        ({"notifier": "json.JSONDecoder"}, "JSONDecoder is not a notifier of json"),
    ],
)
def test_a_notifier_that_cannot_be_called(notify: dict[str, Any], said: str) -> None:
    feeds = {"a": told(FEED), "b": FEED.model_copy(update={"notify": (Notify.model_validate(notify),)})}
    usable, (error,) = with_notifiers(feeds)
    assert set(usable) == {"a"}
    assert error.message.startswith("b: notify: ")
    assert re.search(said, str(error)), str(error)


def test_mail_by_airflows_own_notifier(control: ControlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sends to a real SMTP server. The text is escaped."""
    with SmtpServer() as server:
        connection = {"conn_type": "smtp", "host": "127.0.0.1", "port": server.port,
                      "extra": {"disable_ssl": True, "disable_tls": True}}  # fmt: skip
        monkeypatch.setenv("AIRFLOW_CONN_MAIL", json.dumps(connection))
        arguments = {"to": "team@example.com", "from_email": "lake@example.com", "smtp_conn_id": "mail"}
        notify = Notify.model_validate({"notifier": SMTP, "with": arguments})
        feed = FEED.model_copy(update={"notify": (notify,)})
        alerts.on_failure(feed)(context("extract", exception=RuntimeError("<b>no</b> source")))
    (text,) = server.messages
    mail = message_from_string(text, policy=default)
    assert (mail["To"], mail["Subject"]) == ("team@example.com", "changeledger: shop_cdc failed")
    body = mail.get_body(("html",))
    assert body is not None
    assert "&lt;b&gt;no&lt;/b&gt; source" in body.get_content()


@pytest.mark.parametrize(("run_type", "count"), [("scheduled", 1), ("manual", 1), ("backfill", 0)])
def test_a_late_run(
    control: ControlStore,
    reported: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    run_type: str,
    count: int,
) -> None:
    """Runs of a backfill wait for each other, so they are not late."""
    run = {"dag_run_id": "r1", "run_type": run_type, "queued_at": "2026-01-31T12:00:00Z"}
    monkeypatch.setattr(alerts, "named_feed", lambda *_: told(FEED))
    alerts.late("shop_cdc", {"dag_run": run})
    assert [(m["event"], m["feed"], m["run"]) for m in reported] == [("late", "shop_cdc", "r1")] * count
    assert [m["link"] for m in reported] == ["http://airflow/dags/shop_cdc/runs/r1"] * count


def test_a_run_that_was_green_and_could_not_read_on(
    control: ControlStore, reported: list[dict[str, Any]]
) -> None:
    window = resolve_window(FEED, {}, RUN)  # type: ignore[arg-type]
    state = SourceState("t[0]", "5", "9", NOON, 4, NOON - timedelta(minutes=1), why="a transaction is open")
    control.sources.save_states(FEED.feed, [state])
    alerts.ended(told(FEED), window, "extract", context("extract"), is_last=False)
    assert not reported, "it waits for no longer than every transaction does"
    control.sources.save_states(FEED.feed, [replace(state, since=NOON - timedelta(hours=4))])
    alerts.ended(told(FEED), window, "extract", context("extract"), is_last=False)
    (message,) = reported
    names = "event", "feed", "window", "since", "waiting", "link", "page"
    assert {name: message[name] for name in names} == {
        "link": "http://airflow/logs", "page": f"{LEDGER}/feeds/shop_cdc",
        "event": "late", "feed": "shop_cdc", "window": window.id, "since": "2026-01-31 08:00:00+00:00",
        "waiting": ["t[0]: 4 records behind the end, since 2026-01-31 08:00:00 UTC; a transaction is open"],
    }  # fmt: skip


def test_the_page_of_a_job_that_was_killed_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that failed by itself has written more on its page than Airflow knows."""
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path))
    shop = Database(database="shop")
    failed = alerts.callbacks_of_job("compare", (), shop.report, database="shop")["on_failure_callback"]
    page = Settings().data_docs / "compare_shop" / "index.html"
    started = datetime.now(UTC)
    ti = SimpleNamespace(task_id="compare", log_url="http://airflow/logs", start_date=started)
    failed(context("compare", ti=ti))
    assert "it broke. The task&#x27;s log says more." in page.read_text("utf-8")
    page.write_text("written by the job", "utf-8")
    failed(context("compare", ti=ti))
    assert page.read_text("utf-8") == "written by the job"
