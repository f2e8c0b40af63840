"""Runs `make demo`: five feeds from real services to published tables, by real Airflow DAGs, and a report."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console

from changeledger.config.connection import connection_variable
from changeledger.config.database import named_database
from changeledger.config.feed import Feed
from changeledger.config.files import load_feeds
from changeledger.config.settings import Settings
from changeledger.console.process import escape_unknown
from changeledger.model.errors import ChangeledgerError
from changeledger.model.window import Window
from sourcelab import report, shop_values
from sourcelab.airflow_home import AirflowHome, DagTest
from sourcelab.children import ChildFailed
from sourcelab.lab import Progress, Sources, open_lake, own_folder
from sourcelab.log import Log, simulate
from sourcelab.object_store import PLACES, placed_lake
from sourcelab.process import ServiceError
from sourcelab.shared_workers import SharedWorkers
from sourcelab.tables import DATABASE
from sourcelab.together import Together, ended_by_sigterm

SEED = 7
TRANSACTIONS = 200
_LOOK_EVERY_SECONDS = 0.2


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sourcelab.demo", description=__doc__)
    parser.add_argument(
        "--submit", action="store_true", help="a Spark of its own for every task, instead of one for all"
    )
    parser.add_argument(
        "--lake", choices=PLACES, default=PLACES[0], help="where the lake is; s3: on S3, with a REST catalog"
    )
    arguments = parser.parse_args(argv)
    escape_unknown()
    console = Console()
    try:
        with ended_by_sigterm(), own_folder("demo") as (home, settings):
            progress = Progress(console)
            with placed_lake(arguments.lake, home, settings, progress.say) as lake:
                return 0 if _run(progress, home, lake, submit=arguments.submit) else 1
    except (ServiceError, ChildFailed) as error:
        console.print(str(error), markup=False, highlight=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print("interrupted: everything that was started has been ended")
        return 130


def _run(progress: Progress, home: Path, settings: Settings, *, submit: bool) -> bool:
    """Returns whether every DAG succeeded, every rule passed and every table equals the log."""
    sources, server, airflow = Sources(home), SharedWorkers(settings, home), AirflowHome(home)
    airflow.forbid_retries()
    services = sources.services if submit else (*sources.services, server)
    progress.say(f"starting {', '.join(s.name for s in services)} and Airflow; their logs are below {home}")
    # The last hour, so that Kafka does not delete the messages as expired.
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    log = simulate(SEED, TRANSACTIONS, start, shop_values.value)
    with (
        airflow.migrate() as migration,
        Together(*services, say=progress.say) as together,
    ):
        together.wait_for(*sources.services)
        _load(progress, sources, log)
        together.wait_for()
        if not submit:
            open_lake(server.remote)
            progress.say("the lake's catalog is made")
        migration.wait()
        spark = {"conn_type": "spark", "host": "local[*]"} if submit else server.connection
        airflow.connect({**sources.connections, "changeledger_spark": spark})
        feeds = load_feeds(settings.feeds)
        window = Window(start=start, end=datetime.now(UTC))
        failed = _run_dags(progress, [airflow.test_dag(name, "feeds.py", window) for name in feeds])
        _prove(progress, settings, feeds, sources)
        outcome = report.gather(settings, list(feeds.values()), window, log)
        stages = {feed: airflow.task_runs(feed) for feed in feeds}
        report.show(progress.console, outcome, stages, settings)
        for child in failed:
            progress.console.print(child.failure, style="red", markup=False, highlight=False, soft_wrap=True)
    verdict = "[bold green]everything holds[/]" if outcome.holds and not failed else "[bold red]it failed[/]"
    progress.say(f"{verdict}; all services have been ended")
    return outcome.holds and not failed


def _load(progress: Progress, sources: Sources, log: Log) -> None:
    changes = sum(len(transaction.changes) for transaction in log.transactions)
    messages = sources.load(log, len(log.transactions))
    progress.say(
        f"{len(log.transactions)} transactions with {changes} changes are written in five dialects: as rows "
        f"of two kinds of change tables, and as {messages} messages of three kinds"
    )


def _prove(progress: Progress, settings: Settings, feeds: Mapping[str, Feed], sources: Sources) -> None:
    """Compares the published tables of the feeds with the source's tables; the report shows the outcome."""
    # Takes seconds to import.
    from changeledger.reports.proof import verify_and_report  # noqa: PLC0415
    from changeledger.spark.session import spark_session  # noqa: PLC0415

    for name, connection in sources.connections.items():
        os.environ[connection_variable(name)] = json.dumps(connection)
    database = named_database(settings, feeds, DATABASE)
    try:
        verify_and_report(spark_session("changeledger demo"), database, feeds)
        progress.say(f"all feeds are compared with the source's own tables: {database.proofs(settings)}")
    except ChangeledgerError as error:
        progress.say(str(error))


def _run_dags(progress: Progress, runs: Sequence[DagTest]) -> list[DagTest]:
    """Runs the DAGs in parallel, and returns those that failed."""
    with ExitStack() as stack:
        for run in runs:
            stack.enter_context(run)
            progress.say(f"{run.name}: started, log {run.log}")
        shown: set[str] = set()
        while any(run.running for run in runs):
            _show_stages(progress, runs, shown)
            time.sleep(_LOOK_EVERY_SECONDS)
        _show_stages(progress, runs, shown)
    return [run for run in runs if run.failed]


def _show_stages(progress: Progress, runs: Sequence[DagTest], shown: set[str]) -> None:
    for run in runs:
        for line in run.done:
            if line not in shown:
                shown.add(line)
                progress.say(line)


if __name__ == "__main__":
    sys.exit(main())
