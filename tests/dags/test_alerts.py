"""What an alert says when a task has failed for good, or a run is late; and that its feed is let go."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from changeledger.config.database import Database
from changeledger.config.files import load_feeds
from changeledger.config.settings import Settings
from changeledger.control import AuditResult, BuiltSnapshots, ControlStore
from changeledger.model.source_state import SourceState
from changeledger.orchestration import alerts, resolve_window

FEED = load_feeds(Settings().feeds)["shop_cdc"]
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
        monkeypatch.setenv("CHANGELEDGER_ALERT_URL", f"http://127.0.0.1:{server.server_port}/secret")
        yield received
        server.shutdown()


def context(task: str, **more: Any) -> Any:
    ti = SimpleNamespace(task_id=task, log_url="http://airflow/logs")
    return {"ti": ti, "dag_run": RUN, "params": {}, "exception": RuntimeError("it broke"), **more}


def test_a_failed_audit_names_its_rules(
    control: ControlStore, reported: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    window = resolve_window(FEED, {}, RUN)  # type: ignore[arg-type]
    control.acquire_lease(FEED.feed, window.holder, 3600)
    verdicts = [
        AuditResult("dbo.parts", "order_strict", False, 3, {"stops": True}),
        AuditResult("dbo.parts", "no_unpaired_images", False, 1, {"stops": False}),
        AuditResult("dbo.parts", "conservation", True, 0, {"stops": False}),
    ]
    control.save_audit(FEED.feed, window, verdicts, BuiltSnapshots("branch", {}))
    alerts.on_failure(FEED)(context("audit"))
    (message,) = reported
    assert message.pop("text").startswith("changeledger\nevent: failed\nfeed: shop_cdc\nwindow: 20260131T11")
    assert message == {
        "event": "failed",
        "feed": "shop_cdc",
        "window": window.id,
        "stage": "audit",
        "rules": ["dbo.parts: order_strict (3)"],
        "error": "it broke",
        "link": "http://airflow/logs",
    }
    assert "feed=shop_cdc" in caplog.text
    assert control.lease(FEED.feed) is None, "the feed's next run need not wait for it"


def test_another_runs_lease_is_left_alone(control: ControlStore, reported: list[dict[str, Any]]) -> None:
    control.acquire_lease(FEED.feed, "another run", 3600)
    alerts.on_failure(FEED)(context("extract"))
    assert control.lease(FEED.feed) is not None
    assert reported[0]["rules"] == []


@pytest.mark.parametrize("missing", [{"params": {"mode": "window"}}, {"dag_run": None}], ids=str)
def test_a_run_without_a_window_is_reported(
    control: ControlStore, reported: list[dict[str, Any]], missing: dict[str, Any]
) -> None:
    alerts.on_failure(FEED)(context("extract", **missing))
    assert reported[0]["window"] is None
    assert reported[0]["stage"] == "extract"


def test_a_webhook_that_does_not_answer(
    control: ControlStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CHANGELEDGER_ALERT_URL", "http://127.0.0.1:9/secret")
    alerts.on_failure(FEED)(context("extract"))
    assert "CHANGELEDGER_ALERT_URL was not reached" in caplog.text
    assert "secret" not in caplog.text


def test_what_is_done_for_a_database_has_failed(reported: list[dict[str, Any]]) -> None:
    alerts.on_job_failure("verify", database="shop")(context("verify"))
    (message,) = reported
    assert {name: message[name] for name in ("event", "database", "stage", "error", "link")} == {
        "event": "failed", "database": "shop", "stage": "verify", "error": "it broke",
        "link": "http://airflow/logs",
    }  # fmt: skip


@pytest.mark.parametrize(("run_type", "count"), [("scheduled", 1), ("manual", 1), ("backfill", 0)])
def test_a_late_run(control: ControlStore, reported: list[dict[str, Any]], run_type: str, count: int) -> None:
    """Runs of a backfill wait for each other."""
    run = {"dag_run_id": "r1", "run_type": run_type, "queued_at": "2026-01-31T12:00:00Z"}
    alerts.late("shop_cdc", {"dag_run": run})
    assert [(m["event"], m["feed"], m["run"]) for m in reported] == [("late", "shop_cdc", "r1")] * count


def test_a_run_that_was_green_and_could_not_read_on(
    control: ControlStore, reported: list[dict[str, Any]]
) -> None:
    window = resolve_window(FEED, {}, RUN)  # type: ignore[arg-type]
    state = SourceState("t[0]", "5", "9", NOON, 4, NOON - timedelta(minutes=1), why="a transaction is open")
    control.save_source_states(FEED.feed, [state])
    alerts.late_sources(FEED, window)
    assert not reported, "it waits for no longer than every transaction does"
    control.save_source_states(FEED.feed, [replace(state, since=NOON - timedelta(hours=4))])
    alerts.late_sources(FEED, window)
    (message,) = reported
    assert {name: message[name] for name in ("event", "feed", "window", "since", "waiting")} == {
        "event": "late", "feed": "shop_cdc", "window": window.id, "since": "2026-01-31 08:00:00+00:00",
        "waiting": ["t[0]: 4 records behind the end, since 2026-01-31 08:00:00 UTC; a transaction is open"],
    }  # fmt: skip


def test_the_page_of_a_job_that_was_killed_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that failed by itself has said more on its page than Airflow knows."""
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path))
    failed = alerts.on_job_failure("compare", Database(database="shop").report, database="shop")
    page = Settings().data_docs / "compare_shop" / "index.html"
    started = datetime.now(UTC)
    ti = SimpleNamespace(task_id="compare", log_url="http://airflow/logs", start_date=started)
    failed(context("compare", ti=ti))
    assert "it broke. The task&#x27;s log says more." in page.read_text("utf-8")
    page.write_text("written by the job", "utf-8")
    failed(context("compare", ti=ti))
    assert page.read_text("utf-8") == "written by the job"
