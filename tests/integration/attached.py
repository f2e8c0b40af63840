"""A process whose jobs attach to a Spark Connect server, one after the other.

In a test, a job's start takes longer than its work.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from changeledger.config.settings import PROJECT, Settings
from changeledger.model.window import Window
from tests.integration.line import BEGIN

STAGES = ("extract", "normalize", "reconcile", "audit", "publish")
# Runs each line, a JSON list, like `python LIST`, and prints its exit code after its output.
_RUNNER = """
import gc, json, logging, runpy, sys, traceback
import changeledger.cli.main, changeledger.job
from changeledger.config.files import load_feeds
# Each of them would end this process, too.
changeledger.cli.main.leave = changeledger.job.leave = sys.exit
for line in sys.stdin:
    sys.argv = json.loads(line)
    # As in a process of its own: the command keeps Spark's messages from its answers, feeds are read once.
    logging.disable(logging.NOTSET)
    load_feeds.cache_clear()
    try:
        if sys.argv[0].endswith(".py"):
            runpy.run_path(sys.argv[0], run_name="__main__")
        else:
            runpy.run_module(sys.argv[0], run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc(file=sys.stdout)
        code = 1
    # A session that is collected later would end the pool of threads that the next one uses.
    gc.collect()
    print(f"\\nended {code}", flush=True)
"""


class Ended(NamedTuple):
    code: int
    printed: str


class Attached:
    """A process whose jobs attach to the server."""

    def __init__(
        self,
        settings: Settings,
        remote: str,
        connection: dict[str, Any],
        variables: Mapping[str, str],
    ) -> None:
        """`variables`: additional variables of the process's environment."""
        environment = {
            **os.environ,
            **variables,
            "SPARK_REMOTE": remote,
            "CHANGELEDGER_HOME": str(settings.home),
            "CHANGELEDGER_FEEDS": str(settings.feeds),
            "CHANGELEDGER_DATABASES": str(settings.databases),
            "AIRFLOW_CONN_SHOP": json.dumps(connection),
            "PYTHONPATH": str(PROJECT / "include"),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-c", _RUNNER], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def __enter__(self) -> Attached:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def run(self, *command: str) -> Ended:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        lines = []
        for line in self._process.stdout:
            if line.startswith("ended "):
                return Ended(int(line.split()[1]), "".join(lines))
            lines.append(line)
        raise AssertionError("the process has ended:\n" + "".join(lines[-100:]))

    def job(self, name: str, *arguments: str) -> Ended:
        return self.run(str(PROJECT / "jobs" / f"{name}.py"), *arguments)

    def stages(self, feed: str, over: Window | None = None, **request: str) -> None:
        """Runs the feed's stages once; without a window, over all that the source has."""
        over = over or Window(start=BEGIN, end=datetime.now(UTC))
        window = ["--start", over.start.isoformat(), "--end", over.end.isoformat()]
        for stage in STAGES:
            ended = self.job(stage, "--feed", feed, *window, "--request", json.dumps(request))
            assert ended.code == 0, f"{feed} {stage}: {ended.printed[-5000:]}"

    def rows(self, query: str) -> list[dict[str, Any]]:
        ended = self.run("changeledger.cli", "query", "--json", query)
        assert ended.code == 0, ended.printed
        return [json.loads(line) for line in ended.printed.splitlines() if line.startswith("{")]
