"""`make up`: Airflow with its UI on the loopback address, beside two sources whose log goes on."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console

from changeledger.config import Settings
from sourcelab.airflow_home import AirflowHome
from sourcelab.children import Child, ChildFailed, require_running
from sourcelab.connect import SparkConnectServer
from sourcelab.lab import Progress, Sources, open_lake, own_folder
from sourcelab.log import Log, simulate
from sourcelab.process import ServiceError, free_port
from sourcelab.together import Together, ended_by_sigterm

_PORT = 8080
_SEED = 7
_LOADED = 200
# Enough for a day.
_TO_COME = 17_280
_EVERY_SECONDS = 5.0
# Instead of once an hour: somebody is watching.
_SCHEDULE = "*/5 * * * *"


def main() -> int:
    console = Console()
    try:
        with ended_by_sigterm(), own_folder("up") as (home, settings):
            _run(Progress(console), home, settings)
    except (ServiceError, ChildFailed) as error:
        console.print(str(error), markup=False, highlight=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print("everything that was started has been ended")
    return 0


def _run(progress: Progress, home: Path, settings: Settings) -> None:
    """Stays until Ctrl-C. Raises ChildFailed when a part of Airflow ends by itself."""
    sources, airflow = Sources(home), AirflowHome(home)
    server = SparkConnectServer(settings, home, lasting=True)
    services = (*sources.services, server)
    progress.say(f"starting {', '.join(s.name for s in services)} and Airflow; their logs are below {home}")
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    log = simulate(_SEED, _LOADED + _TO_COME, start)
    with (
        airflow.migrate() as migration,
        Together(*services, on_start=lambda service: progress.say(f"{service.name} is up")) as together,
        ExitStack() as stack,
    ):
        together.wait_for(*sources.services)
        sources.load(log, _LOADED)
        progress.say(f"{_LOADED} transactions are told in five dialects")
        together.wait_for()
        open_lake(server)
        migration.wait()
        port = _ui_port(progress)
        airflow.connect({**sources.connections, "changeledger_spark": server.connection})
        airflow.environment["CHANGELEDGER_FEEDS"] = str(_frequent_feeds(settings, home))
        airflow.serve_at(port)
        parts = [stack.enter_context(part) for part in airflow.components()]
        airflow.await_ui(parts)
        progress.say(f"Airflow is up: [bold]http://127.0.0.1:{port}[/]  {_login(airflow)}")
        progress.say(
            f"the DAGs run every five minutes; a transaction is added every {_EVERY_SECONDS:.0f} s. "
            "End with Ctrl-C."
        )
        _go_on(sources, log, parts)


def _ui_port(progress: Progress) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", _PORT))
        except OSError:
            port = free_port()
            progress.say(f"port {_PORT} is taken by another program: Airflow gets {port}")
            return port
    return _PORT


def _frequent_feeds(settings: Settings, home: Path) -> Path:
    """Copies of the feed files with a schedule that one can watch."""
    folder = home / "feeds"
    folder.mkdir()
    for feed in settings.feeds.glob("*.yaml"):
        lines = feed.read_text("utf-8").splitlines()
        told = [f'schedule: "{_SCHEDULE}"' if line.startswith("schedule:") else line for line in lines]
        (folder / feed.name).write_text("\n".join(told) + "\n", "utf-8")
    return folder


def _login(airflow: AirflowHome) -> str:
    return "  ".join(
        f"login [bold]{user}[/]  password [bold]{word}[/]" for user, word in airflow.passwords().items()
    )


def _go_on(sources: Sources, log: Log, parts: Sequence[Child]) -> None:
    """Tell one more transaction of the log at a time, as committed now."""
    transactions = list(log.transactions)
    for at in range(_LOADED, len(transactions)):
        time.sleep(_EVERY_SECONDS)
        require_running(parts)
        now = datetime.now(UTC)
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        transactions[at] = replace(transactions[at], begin_time=now, commit_time=now)
        sources.append(Log(log.tables, tuple(transactions[: at + 2])), at, at + 1)
    while True:
        time.sleep(_EVERY_SECONDS)
        require_running(parts)


if __name__ == "__main__":
    sys.exit(main())
