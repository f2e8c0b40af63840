"""Entry points of all job scripts: parse arguments, run one stage, exit with a code that says what to do."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from pydantic import ValidationError

from changeledger import exit_codes
from changeledger.config.database import Database, named_database
from changeledger.config.feed import Feed
from changeledger.config.files import named_feed, readable_feeds
from changeledger.config.object_path import PagePath
from changeledger.config.settings import Settings
from changeledger.console.arguments import JobParser
from changeledger.console.arrow_alone import load_arrow
from changeledger.console.process import collect_rarely, escape_unknown, leave, reach_directly
from changeledger.console.terminal import Lines
from changeledger.model.errors import ChangeledgerError, ConfigError, LeaseLost, SparkNeeded, SparkUnavailable
from changeledger.model.window import Request, Window
from changeledger.pages.redaction import error_text, redacted_traceback
from changeledger.spark import failures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from changeledger.stages.common.context import HeldLease

log = logging.getLogger("changeledger")
# Called here because a job script imports its stage after this module, which takes most of a second.
collect_rarely()
load_arrow()


Stage = Callable[["Callable[[], SparkSession]", Feed, Window, "HeldLease"], bool | None]


def main(run: Stage, argv: list[str] | None = None) -> None:
    """Runs one stage as the command line says.

    A stage returns False if it leaves nothing to do for the stages that follow. It gets a function that
    starts Spark and calls it only when needed: an idle window does not need Spark.

    A ChangeledgerError or a known error of another system ends the process with one of `exit_codes` and
    logs its remedy instead of a traceback. Any other error may be a bug of ours and keeps its traceback.
    """
    stage = run.__module__.rpartition(".")[2]
    arguments = _parser(stage).parse_args(argv)
    _end(lambda: _run(run, stage, arguments), argv)


def main_of_feed(run: Callable[[SparkSession, Feed, str], None], argv: list[str] | None = None) -> None:
    """Runs a job of a feed that belongs to no window. `run` gets a holder name for the feed's lease."""
    stage = run.__module__.rpartition(".")[2]
    parser = JobParser(prog=f"{stage}.py")
    parser.add_argument("--feed", required=True, help="the feed's name, as in its YAML file")
    parser.add_argument("--run", help="Airflow's id of the run")
    arguments = parser.parse_args(argv)

    def work() -> int:
        # As in `_run`.
        from changeledger.control import holder_here  # noqa: PLC0415

        feed = named_feed(arguments.feed)
        # The next try of a run goes on where it was killed; two by hand are two.
        holder = f"{stage} ({arguments.run})" if arguments.run else holder_here(stage)
        with _spark(f"{feed.feed}-{stage}") as session:
            run(session(), feed, holder)
        return 0

    _end(work, argv)


class Choice(NamedTuple):
    """An option `--<name>` of a database job. Takes one of `words`; the first is the default."""

    name: str
    words: Mapping[str, Any]


def main_of_database(
    run: Callable[[SparkSession, Database, Mapping[str, Feed], Any], object],
    choice: Choice,
    page: Callable[[Database, Settings], PagePath],
    argv: list[str] | None = None,
    *,
    is_needed: Callable[[Database, Mapping[str, Feed], Any], bool] | None = None,
) -> None:
    """Runs a job of a database. `run` gets the value of the chosen word of `choice`.

    If the job fails, the page that it writes says so. `is_needed` is asked first and may say that there is
    nothing to do, since Spark takes long to start.
    """
    name = run.__module__.rpartition(".")[2]
    parser = JobParser()
    parser.add_argument("--database", required=True, help="the database's name, as in the feeds' YAML")
    parser.add_argument(
        f"--{choice.name}", choices=choice.words, default=next(iter(choice.words)), dest="word"
    )
    arguments = parser.parse_args(argv)

    def work() -> int:
        settings = Settings()
        feeds, broken = readable_feeds(settings.feeds)
        for error in broken:
            log.warning("left out: %s", error)
        database, asked = named_database(settings, feeds, arguments.database), choice.words[arguments.word]
        if is_needed is not None and not is_needed(database, feeds, asked):
            log.info("%s: nothing to do", database.database)
            return 0
        with _noted(settings, page(database, settings)), _spark(name) as session:
            run(session(), database, feeds, asked)
        return 0

    _end(work, argv)


@contextmanager
def _noted(settings: Settings, page: PagePath) -> Iterator[None]:
    """Records a failure of the job on its page and in the control store.

    Raises LeaseHeld while another process does the same job.
    """
    from changeledger.control.failures import failure_kept  # noqa: PLC0415 - as in `_run`
    from changeledger.pages.html import failure_noted  # noqa: PLC0415
    from changeledger.stages.common.context import control_store  # noqa: PLC0415

    name = page.parent.name
    # Checked before Spark starts, so that waiting costs no start.
    control_store(settings).leases.require_free(name)
    with failure_noted(page), failure_kept(lambda: control_store(settings).failures, name):
        yield


class _Session:
    """A Spark session that starts on the first call. Threads may share it.

    The call raises SparkNeeded if Spark is not `allowed`.
    """

    def __init__(self, name: str, *, allowed: bool) -> None:
        self._name, self._lock, self._allowed = f"changeledger-{name}", Lock(), allowed
        self._started: SparkSession | None = None
        # Time taken to start Spark or to attach to a server; 0 if neither happened.
        self.seconds = 0.0

    def __call__(self) -> SparkSession:
        # Imported here so that `--help` and argument errors answer at once.
        from changeledger.spark.session import spark_session  # noqa: PLC0415

        if not self._allowed:
            raise SparkNeeded("there is something to do with Spark", "run it again without --no-spark")
        with self._lock:
            if self._started is None:
                began = time.monotonic()
                self._started = spark_session(self._name)
                self.seconds = time.monotonic() - began
            return self._started

    def stop(self) -> None:
        if self._started is not None:
            self._started.stop()


@contextmanager
def _spark(name: str, *, allowed: bool = True) -> Iterator[_Session]:
    """Provides a session and releases it at the end: a server would keep it and its plans for an hour.

    Does not release it after SparkUnavailable or an unknown error: the server may be gone, and releasing
    would wait for it.
    """
    session = _Session(name, allowed=allowed)
    try:
        yield session
    except SparkUnavailable:
        raise
    except ChangeledgerError:
        session.stop()
        raise
    session.stop()


def _end(work: Callable[[], int], argv: list[str] | None) -> NoReturn:
    """Ends the process with the code that `work` returns, or with the exit code of its error.

    If `argv` is given, the job runs inside another program, which gets the code as a SystemExit.
    """
    escape_unknown()
    lines = logging.StreamHandler(sys.stdout)
    lines.setFormatter(Lines("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[lines], level=logging.INFO)
    # These libraries log every gRPC call of a query and every step of a migration.
    for name in ("py4j", "pyspark", "pyiceberg", "alembic", "great_expectations"):
        logging.getLogger(name).setLevel(logging.WARNING)
    reach_directly()
    try:
        code = work()
    except Exception as error:
        ours = failures.known(error)
        if ours is not None:
            log.error("%s: %s", type(ours).__name__, ours)
            code = exit_codes.of(ours)
        elif Settings().redact_values:
            sys.stderr.write(redacted_traceback(error))
            code = exit_codes.FAULT
        else:
            raise
    if argv is None:
        leave(code)
    sys.exit(code)


def _run(run: Stage, stage: str, arguments: argparse.Namespace) -> int:
    feed = named_feed(arguments.feed)
    window = _window(arguments.start, arguments.end, arguments.request)
    feed.only(window.request.tables)
    # Imported here so that `--help` and argument errors answer at once.
    from changeledger.stages.common.context import take_lease  # noqa: PLC0415

    asked = window.request.argument()
    log.info("%s %s %s .. %s %s", stage, feed.feed, window.start.isoformat(), window.end.isoformat(), asked)
    lease = take_lease(feed, window)
    if lease is None:
        return exit_codes.NOTHING
    began = time.monotonic()
    try:
        with (
            _failure_saved(feed, window, stage),
            _spark(f"{feed.feed}-{stage}", allowed=not arguments.no_spark) as session,
        ):
            continues = run(session, feed, window, lease)
    except SparkNeeded:
        log.info("%s: the window has records that Spark must read", feed.feed)
        return exit_codes.NEEDS_SPARK
    log.info(
        "%s %s done in %.1f s, after %.1f s for the Spark session",
        stage,
        feed.feed,
        time.monotonic() - began - session.seconds,
        session.seconds,
    )
    return exit_codes.NOTHING if continues is False else 0


@contextmanager
def _failure_saved(feed: Feed, window: Window, stage: str) -> Iterator[None]:
    """Saves a failure of the stage for `status`, since a stage may fail before its window is stored."""
    from changeledger.stages.common.context import control_store  # noqa: PLC0415 - as in `_run`

    try:
        yield
    except (SparkNeeded, LeaseLost):
        # SparkNeeded is no failure. After LeaseLost, the run that took the feed reports its state.
        raise
    except Exception as error:
        ours = failures.known(error) or error
        with suppress(ChangeledgerError):
            control_store(Settings()).failures.save(feed.feed, window, stage, error_text(ours))
        raise
    control_store(Settings()).failures.forget(feed.feed)


def _parser(stage: str) -> argparse.ArgumentParser:
    parser = JobParser(prog=f"{stage}.py", description=f"Run the {stage} stage of one window.")
    parser.add_argument("--feed", required=True, help="the feed's name, as in its YAML file")
    parser.add_argument(
        "--start", required=True, type=_moment, help="start of the window, ISO 8601 with zone"
    )
    parser.add_argument("--end", required=True, type=_moment, help="end of the window, not included")
    parser.add_argument(
        "--request", default="{}", metavar="JSON", help="the run's request (window.Request) as JSON"
    )
    parser.add_argument(
        "--no-spark", action="store_true", help=f"end with {exit_codes.NEEDS_SPARK} instead of starting Spark"
    )
    return parser


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} has no time zone; write for example 2026-01-31T05:00:00Z")
    return moment


def _window(start: datetime, end: datetime, request: str) -> Window:
    try:
        return Window(start=start, end=end, request=Request.model_validate_json(request))
    except ValidationError as error:
        said = "; ".join(detail["msg"] for detail in error.errors())
        raise ConfigError(said, "correct --start, --end and --request") from None
