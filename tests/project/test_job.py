"""Errors that end a job before Spark starts, and what their exit codes mean to Airflow."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from changeledger import exit_codes, job
from changeledger.config.database import Database
from changeledger.config.feed import Feed
from changeledger.config.files import readable_feeds
from changeledger.config.settings import Settings
from changeledger.control import ControlStore, holder_here, lease, lease_heartbeat
from changeledger.model.errors import AuditFailed, LeaseLost, SourceUnavailable, StageOrderError
from changeledger.model.window import Request, Window
from changeledger.spark import failures, session
from changeledger.state.status import gather

FEED = "shop"
HOUR = Window(
    start=datetime(2026, 1, 31, 11, tzinfo=UTC),
    end=datetime(2026, 1, 31, 12, tzinfo=UTC),
    request=Request(run="scheduled__1"),
)
TABLE_QUERY: dict[str, Any] = {
    "feed": FEED,
    "dialect": "sqlserver_cdc",
    "database": "shop",
    "connection": "shop_sqlserver",
    "source": {},
    "tables": [{"table": "dbo.parts"}],
}


@pytest.fixture
def feeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "feeds"
    folder.mkdir()
    (folder / "shop.yaml").write_text(yaml.safe_dump(TABLE_QUERY))
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CHANGELEDGER_FEEDS", str(folder))
    monkeypatch.setenv("CHANGELEDGER_DATABASES", str(tmp_path / "databases"))

    def no_spark(_: str) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(session, "spark_session", no_spark)
    return folder


@pytest.fixture
def control(feeds: Path, tmp_path: Path) -> ControlStore:
    (tmp_path / "home").mkdir()
    return ControlStore(Settings().control_url)


def run(*_: Any) -> bool | None:
    raise AssertionError("the stage was run")


def ended(*options: str, run: Callable[..., bool | None] = run) -> int:
    arguments = ["--feed", FEED, "--start", HOUR.start.isoformat(), "--end", HOUR.end.isoformat()]
    request = [] if "--request" in options else ["--request", HOUR.request.argument()]
    with pytest.raises(SystemExit) as caught:
        job.main(run, [*arguments, *request, *options])
    assert isinstance(caught.value.code, int)
    return caught.value.code


def test_a_feed_file_that_was_broken_since_the_dag_was_parsed(
    feeds: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (feeds / "shop.yaml").write_text("feed: shop\ntables: [")
    assert ended() == exit_codes.FINAL
    assert str(feeds / "shop.yaml") in caplog.text
    assert "Remedy:" in caplog.text


def test_a_feed_that_is_gone(feeds: Path, caplog: pytest.LogCaptureFixture) -> None:
    (feeds / "shop.yaml").unlink()
    assert ended() == exit_codes.FINAL
    assert "there is no feed 'shop'" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--end", "2026-01-31T11:00:00+00:00"], "empty or reversed"),
        (["--request", '{"mode": "replay", "dry_run": true}'], "no dry run"),
        (["--request", '{"mode": "window", "tables": ["dbo.other"]}'], "has no table dbo.other"),
        (["--request", '{"colour": "green"}'], "correct --start, --end and --request"),
    ],
)
def test_a_request_that_cannot_be_met(
    feeds: Path, caplog: pytest.LogCaptureFixture, options: list[str], message: str
) -> None:
    assert ended(*options) == exit_codes.FINAL
    assert message in caplog.text


def test_while_another_run_is_at_work(control: ControlStore, caplog: pytest.LogCaptureFixture) -> None:
    """Another run over the same window holds the feed, too."""
    other = HOUR.model_copy(update={"request": Request(run="manual__2")})
    control.leases.acquire(FEED, other.holder, 3600)
    assert ended() == exit_codes.HELD
    assert "manual__2" in caplog.text


def test_a_window_that_is_done_keeps_no_other_run_waiting(control: ControlStore) -> None:
    """The run was killed, or lost the control store, when only releasing the lease was left to do."""
    control.windows.open(FEED, HOUR, {}, {"dbo.parts": "0A"})
    control.windows.close_empty(FEED, HOUR, {"dbo.parts": "0A"})
    dead = ControlStore(Settings().control_url, process="the try that died")
    dead.leases.acquire(FEED, HOUR.holder, 3600)
    assert ended() == exit_codes.NOTHING
    assert control.leases.of_feed(FEED) is None
    # Another run's lease stays.
    dead.leases.acquire(FEED, "another run", 3600)
    assert ended() == exit_codes.NOTHING
    assert control.leases.of_feed(FEED) is not None


def test_a_window_that_is_done(control: ControlStore) -> None:
    control.windows.open(FEED, HOUR, {}, {"dbo.parts": "0A"})
    control.windows.close_empty(FEED, HOUR, {"dbo.parts": "0A"})
    assert control.windows.position(FEED) == {"dbo.parts": "0A"}
    assert ended() == exit_codes.NOTHING
    assert control.leases.of_feed(FEED) is None


@pytest.mark.parametrize("hidden", ["false", "true"])
def test_an_error_that_nobody_knows_tells_no_value_where_values_are_hidden(
    control: ControlStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], hidden: str
) -> None:
    monkeypatch.setenv("CHANGELEDGER_REDACT_VALUES", hidden)

    def run(*_: Any) -> bool | None:
        try:
            raise ValueError("'Ann' is no number")
        except ValueError as error:
            raise RuntimeError("[CAST_INVALID_INPUT] The value 'Ann' cannot be cast") from error

    said = ""
    if hidden == "false":
        with pytest.raises(RuntimeError, match="Ann"):
            ended(run=run)
    else:
        assert ended(run=run) == exit_codes.FAULT
        said = capsys.readouterr().err
        assert "ValueError: an error; its message may hold values" in said
        assert "RuntimeError: [CAST_INVALID_INPUT]; its message may hold values" in said
        assert "test_job.py" in said
        # Python's own form, by which Airflow's task finds the error.
        assert said.startswith("Traceback (most recent call last):\n  File ")
    kept = control.failures.of_feed(FEED)
    assert kept is not None
    assert ("Ann" in kept.error) == (hidden == "false")
    assert "raise ValueError" in said or hidden == "false"


class TestLease:
    def fails(self, control: ControlStore, error: Exception) -> None:
        control.leases.acquire(FEED, "me", 3600)
        with pytest.raises(type(error)), lease_heartbeat(control.leases, FEED, "me"):
            raise error

    def test_an_error_that_no_retry_mends_lets_others_in(self, control: ControlStore) -> None:
        self.fails(control, AuditFailed("a rule", "a remedy"))
        assert control.leases.of_feed(FEED) is None

    @pytest.mark.parametrize("error", [SourceUnavailable("away", "wait"), RuntimeError("a fault of ours")])
    def test_for_another_try_it_is_kept(self, control: ControlStore, error: Exception) -> None:
        self.fails(control, error)
        assert control.leases.of_feed(FEED) is not None

    def test_it_is_renewed_while_a_stage_works(
        self, control: ControlStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lease, "_RENEWALS", 360_000)
        control.leases.acquire(FEED, "me", 60)
        begun = control.leases.of_feed(FEED)
        assert begun is not None
        with lease_heartbeat(control.leases, FEED, "me"):
            until = time.monotonic() + 30
            while time.monotonic() < until:
                now = control.leases.of_feed(FEED)
                assert now is not None
                if now.expires_at > begun.expires_at:
                    return
                time.sleep(0.01)
        raise AssertionError("not renewed")

    def test_no_error_ends_the_heartbeat(
        self, control: ControlStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A driver may raise anything. The next try renews the lease."""
        renewed = threading.Event()
        errors = iter([RuntimeError("a driver's"), TimeoutError("of a pool")])

        def renew(_feed: str, _seconds: float) -> None:
            for error in errors:
                raise error
            renewed.set()

        monkeypatch.setattr(lease, "_RENEWALS", 360_000)
        control.leases.acquire(FEED, "me", 60)
        with lease_heartbeat(control.leases, FEED, "me"):
            monkeypatch.setattr(control.leases, "renew", renew)
            assert renewed.wait(30)
        assert "TimeoutError: of a pool" in caplog.text

    @pytest.mark.parametrize(
        "error", [ValueError("main moved"), StageOrderError("gone", "run it"), SourceUnavailable("x", "y")]
    )
    def test_whatever_a_run_meets_that_has_lost_its_lease_is_that(
        self, control: ControlStore, error: Exception
    ) -> None:
        control.leases.acquire(FEED, "me", 0)
        other = ControlStore(Settings().control_url, process="another")

        def work() -> None:
            with lease_heartbeat(control.leases, FEED, "me"):
                other.leases.acquire(FEED, "another run", 60)
                raise error

        with pytest.raises(LeaseLost, match=r"has lost its lease .* to another run") as raised:
            work()
        assert raised.value.__cause__ is error
        held = other.leases.of_feed(FEED)
        assert held is not None
        assert held.holder == "another run"


class _Session:
    stopped = False

    def stop(self) -> None:
        self.stopped = True


@pytest.mark.parametrize(
    ("raised", "is_let_go"),
    # After an unknown error, the server itself may be gone.
    [(None, True), (SourceUnavailable("away", "wait"), True), (RuntimeError("a fault of ours"), False)],
)
def test_a_session_is_let_go(
    control: ControlStore, monkeypatch: pytest.MonkeyPatch, raised: Exception | None, is_let_go: bool
) -> None:
    spark = _Session()
    monkeypatch.setattr(session, "spark_session", lambda _: spark)

    def stage(session: Any, *_: Any) -> None:
        assert session() is spark
        assert session() is spark, "started once"
        assert not spark.stopped
        if raised is not None:
            raise raised

    if isinstance(raised, RuntimeError):
        with pytest.raises(RuntimeError, match="a fault of ours"):
            ended(run=stage)
    else:
        ended(run=stage)
    assert spark.stopped is is_let_go


def test_a_stage_that_needs_no_spark_starts_none(
    control: ControlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "spark_session", lambda _: pytest.fail("Spark was started"))
    assert ended(run=lambda *_: False) == exit_codes.NOTHING


def test_a_stage_that_must_start_no_spark_says_that_it_needs_one(
    control: ControlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "spark_session", lambda _: pytest.fail("Spark was started"))
    assert ended("--no-spark", run=lambda session, *_: session()) == exit_codes.NEEDS_SPARK
    assert ended("--no-spark", run=lambda *_: False) == exit_codes.NOTHING


@pytest.mark.parametrize(
    ("text", "said", "is_let_go"),
    [
        ("org.postgresql.util.PSQLException: Connection to db:5432 refused.", "SourceUnavailable: ", True),
        # Stopping the session would wait for a server that is gone.
        ("Answer from Java side is empty", "SparkUnavailable: ", False),
    ],
)
def test_an_error_of_another_system_ends_with_its_remedy(
    control: ControlStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    text: str,
    said: str,
    is_let_go: bool,
) -> None:
    spark = _Session()
    monkeypatch.setattr(session, "spark_session", lambda _: spark)

    def work(session: Any, *_: Any) -> None:
        session()
        with failures.named("shop"):
            raise RuntimeError(text)

    assert ended(run=work) == exit_codes.RETRY
    assert said in caplog.text
    assert "Remedy: " in caplog.text
    assert spark.stopped is is_let_go


def test_how_a_run_failed_before_its_window_was_stored_is_kept_until_one_succeeds(
    control: ControlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> bool | None:
        raise SourceUnavailable("the source refuses the login", "correct the password")

    def unknown(*_: Any) -> bool | None:
        raise ValueError("a fault of ours")

    ended(run=refused)
    failure = control.failures.of_feed(FEED)
    assert failure is not None
    assert (failure.window_id, failure.error) == (
        HOUR.id,
        "SourceUnavailable: the source refuses the login\n  Remedy: correct the password",
    )
    (feed,) = readable_feeds(Settings().feeds)[0].values()
    assert gather(control, feed).failure is not None
    with pytest.raises(ValueError, match="a fault of ours"):
        ended(run=unknown)
    failure = control.failures.of_feed(FEED)
    assert failure is not None
    assert failure.error == "ValueError: a fault of ours"
    assert ended(run=lambda *_: True) == 0
    assert control.failures.of_feed(FEED) is None


def test_what_was_asked_is_kept_with_the_window(control: ControlStore) -> None:
    asked = Request(mode="window", dry_run=True, run="manual__1")
    trial = HOUR.model_copy(update={"request": asked})
    assert trial.id == HOUR.id
    control.windows.open(FEED, trial, {}, {})
    stored = control.windows.row(FEED, HOUR.id)
    assert stored is not None
    assert stored.request == asked
    assert json.dumps(stored.asked) == '{"mode": "window", "dry_run": true, "run": "manual__1"}'
    control.windows.keep_request(FEED, HOUR)
    stored = control.windows.row(FEED, HOUR.id)
    assert stored is not None
    assert not stored.request.dry_run


def test_a_database_whose_job_fails_has_a_page_that_says_so(
    feeds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page reports a failure even before there is a Spark to write the page with."""

    def unreachable(_: str) -> None:
        raise SourceUnavailable("the Spark server does not answer", "start it")

    monkeypatch.setattr(session, "spark_session", unreachable)
    with pytest.raises(SystemExit) as ended:
        job.main_of_database(
            run, job.Choice("again", {"false": False}), Database.report, ["--database", "shop"]
        )
    assert ended.value.code == exit_codes.RETRY
    page = (Settings().data_docs / "compare_shop" / "index.html").read_text("utf-8")
    assert "The last run failed at " in page
    assert "the Spark server does not answer" in page


def test_a_database_whose_job_another_process_does_waits_without_spark(
    feeds: Path, control: ControlStore
) -> None:
    """Airflow asks every 20 seconds: this is no try and no failure, and starts no Spark."""
    other = ControlStore(Settings().control_url, process="another")
    other.leases.acquire("compare_shop", "another comparison", 60)
    with pytest.raises(SystemExit) as ended:
        job.main_of_database(
            run, job.Choice("again", {"false": False}), Database.report, ["--database", "shop"]
        )
    assert ended.value.code == exit_codes.HELD
    assert not (Settings().data_docs / "compare_shop" / "index.html").exists()
    assert control.failures.of_feed("compare_shop") is None


@pytest.mark.usefixtures("feeds", "control")
def test_two_by_hand_are_two_and_the_next_try_of_a_run_is_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who holds a lease takes it again at once: the second one by hand would end the first one."""
    holders = []

    def maintain(_session: object, _feed: Feed, holder: str) -> None:
        holders.append(holder)

    monkeypatch.setattr(session, "spark_session", lambda _: SimpleNamespace(stop=lambda: None))
    for arguments in ([], ["--run", "manual__1"]):
        with pytest.raises(SystemExit) as ended:
            job.main_of_feed(maintain, ["--feed", FEED, *arguments])
        assert ended.value.code == 0
    stage = __name__.rpartition(".")[2]
    assert holders == [holder_here(stage), f"{stage} (manual__1)"]
