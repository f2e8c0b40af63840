"""Runs `make up`: Airflow with its UI on the loopback address, beside two sources whose log continues."""

from __future__ import annotations

import os
import shlex
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from changeledger.cli.shell import FILE
from changeledger.config.settings import Settings
from changeledger.console.process import escape_unknown
from sourcelab.airflow_home import AirflowHome
from sourcelab.children import Child, ChildFailed, end_together
from sourcelab.lab import Progress, SourceLost, Sources, open_lake, own_folder
from sourcelab.losses import Losses
from sourcelab.postgres import plain_url
from sourcelab.process import ServiceError, free_port
from sourcelab.shared_workers import SharedWorkers
from sourcelab.together import Together, ended_by_sigterm
from sourcelab.traffic import PAST_HOURS, Traffic

_PORT = 8080
_SEED = 7
_EVERY_SECONDS = 5.0
# Consecutive failed attempts to write a transaction, of at most a minute each, before giving up.
_MOST_LOST = 20
# Prefixes of the variables that a shell needs for this lake and this Airflow.
_OURS = ("AIRFLOW", "CHANGELEDGER_", "SPARK_REMOTE")


def main() -> int:
    escape_unknown()
    console = Console()
    progress = Progress(console)
    try:
        with ended_by_sigterm(), own_folder("up") as (home, settings):
            traffic = Traffic(_SEED, datetime.now(UTC))
            with started(progress, home, settings, traffic) as (sources, airflow, running):
                for line in welcome(home, settings, sources, airflow, traffic):
                    console.print(line, highlight=False, soft_wrap=True)
                _go_on(sources, traffic, running)
    except (ServiceError, ChildFailed) as error:
        console.print(str(error), markup=False, highlight=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print("everything that was started has been ended")
    return 0


class Running:
    """What `make up` has started. A part that ends unexpectedly is reported and restarted."""

    def __init__(self, services: Together, parts: Sequence[Child], say: Callable[[str], None]) -> None:
        self._services, self.parts = services, parts
        self.say, self._losses = say, Losses(say)

    def keep(self) -> None:
        """Restarts parts that have ended. Raises ServiceError for one that ends again and again."""
        self._services.require_running()
        for part in self.parts:
            if not part.running:
                self._losses.note(part.name, part.returncode, part.log)
                part.restart()


@contextmanager
def started(
    progress: Progress, home: Path, settings: Settings, traffic: Traffic
) -> Iterator[tuple[Sources, AirflowHome, Running]]:
    """Yields sources with the traffic's past, and Airflow working on them. Everything ends on exit."""
    sources, airflow = Sources(home), AirflowHome(home)
    server = SharedWorkers(settings, home, lasting=True)
    services = (*sources.services, server)
    progress.say(f"starting {', '.join(s.name for s in services)} and Airflow; their logs are below {home}")
    with (
        Together(*services, say=progress.say) as together,
        ExitStack() as stack,
    ):
        together.wait_for(sources.postgres)
        airflow.keep_metadata_in(sources.postgres.create_database("airflow"))
        migration = stack.enter_context(airflow.migrate())
        together.wait_for(*sources.services)
        sources.load(traffic.log, len(traffic.log.transactions))
        count = len(traffic.log.transactions)
        progress.say(f"{count} transactions of the last {PAST_HOURS} hours are there, in five dialects")
        together.wait_for()
        # In another process, with which its Spark session ends: this process needs none.
        with ProcessPoolExecutor(1, get_context("spawn")) as beside:
            beside.submit(open_lake, server.remote).result()
        migration.wait()
        with airflow.store({**sources.connections, "changeledger_spark": server.connection}) as storing:
            storing.wait()
        airflow.serve_at(_ui_port(progress))
        stack.callback(keep_environment(home, airflow, sources, server).unlink, missing_ok=True)
        server_first, *others = (*airflow.components(), airflow.triggerer())
        parts = [stack.enter_context(server_first)]
        # A task that the scheduler starts before the API server answers is lost, and retried minutes later.
        airflow.await_ui(parts)
        parts += [stack.enter_context(part) for part in others]
        stack.callback(end_together, parts)
        progress.say("Airflow is up")
        yield sources, airflow, Running(together, parts, progress.say)


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


def keep_environment(home: Path, airflow: AirflowHome, sources: Sources, server: SharedWorkers) -> Path:
    """Writes a file of variables for a shell on this lake and this Airflow. Only its owner can read it."""
    shell = AirflowHome(home)
    shell.environment = {**airflow.environment, "SPARK_REMOTE": server.remote}
    # Outside Airflow, a command finds a connection only in its environment.
    shell.connect(sources.connections)
    file = home / "env"
    shell.environment[FILE] = str(file)
    lines = [
        f"export {name}={shlex.quote(value)}"
        for name, value in sorted(shell.environment.items())
        if name.startswith(_OURS)
    ]
    commands = shlex.quote(str(Path(sys.executable).parent))
    file.touch(0o600)
    file.write_text("\n".join([*lines, f'export PATH={commands}:"$PATH"', ""]), "utf-8")
    return file


def welcome(
    home: Path, settings: Settings, sources: Sources, airflow: AirflowHome, traffic: Traffic
) -> list[str]:
    """Returns lines that say where everything is, and what to try first."""
    ((user, password), *_) = airflow.passwords().items()
    file = shlex.quote(os.path.relpath(home / "env"))
    since, until = (f"{traffic.begin + timedelta(hours=at):%Y-%m-%dT%H:%M}" for at in (0, PAST_HOURS - 1))
    query = "SELECT id, name FROM lake.shop_cdc.dbo_customers ORDER BY id LIMIT 5"
    return [
        "",
        f"  Airflow     [bold]{airflow.url}[/]   login {user}   password [bold]{escape(password)}[/]",
        f"  Kafka       {sources.kafka.bootstrap}   no login",
        f"  PostgreSQL  {escape(plain_url(sources.postgres.url))}   the source's tables and change tables",
        f"  Lake        CHANGELEDGER_HOME={shlex.quote(str(settings.home))}",
        f"  Feeds       {settings.feeds}   a file that you add there becomes a DAG within a minute",
        "",
        "The DAGs run hourly, and once now. A transaction is added every few seconds; in some hours",
        "some tables do not change, and in one of four none does. Three things to try:",
        "",
        f"  1. Look: [bold]{airflow.url}/dags/shop_cdc[/] runs; when it is green, Trigger reads what is new.",
        f"  2. Ask, in another terminal:  [bold]. {file}[/]",
        "     [bold]changeledger status[/]",
        f'     [bold]changeledger query "{query}"[/]',
        "  3. Do hours of the past again, the last one first:",
        # Without markup, in which a backslash would escape a bracket.
        f"     airflow backfill create --dag-id shop_cdc --from-date {since} --to-date {until} \\",
        "         --run-backwards --reprocess-behavior completed --max-active-runs 1",
        "",
        "End with Ctrl-C.",
    ]


def _go_on(sources: Sources, traffic: Traffic, running: Running) -> None:
    """Writes one transaction at a time, as committed now. Writes none while a part of the source is lost."""
    lost = 0
    while True:
        time.sleep(_EVERY_SECONDS)
        running.keep()
        traffic.add(datetime.now(UTC))
        try:
            sources.append(traffic.log, len(traffic.log.transactions))
        except SourceLost as error:
            lost += 1
            if lost == 1:
                running.say(f"{error}; what changes meanwhile is written later")
            if lost == _MOST_LOST:
                raise ServiceError(str(error), "read the logs of the services") from error
        else:
            if lost:
                running.say("all that has changed is written")
            lost = 0


if __name__ == "__main__":
    sys.exit(main())
