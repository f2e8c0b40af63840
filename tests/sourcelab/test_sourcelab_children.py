"""Programs that run beside the services, and how they end."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from sourcelab import children
from sourcelab.children import Child, end_together, kill_all
from tests.integration.browser import until

# When asked to end, each waits until the other one is asked, too.
_PROGRAM = """
import signal, sys, time
from pathlib import Path
own, other = map(Path, sys.argv[1:])

def end(*_):
    own.touch()
    while not other.exists():
        time.sleep(0.01)
    print("both", flush=True)
    raise SystemExit

signal.signal(signal.SIGTERM, end)
print("up", flush=True)
signal.pause()
"""


def test_parts_are_asked_to_end_before_one_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "_FAREWELL_SECONDS", 60.0)
    asked = tmp_path / "first", tmp_path / "second"
    with ExitStack() as stack:
        parts = []
        for files in (asked, asked[::-1]):
            log = tmp_path / f"{files[0].name}.log"
            command = [sys.executable, "-c", _PROGRAM, *map(str, files)]
            parts.append(stack.enter_context(Child(files[0].name, command, os.environ, log)))
        until(lambda: all(part.log.read_text() == "up\n" for part in parts), 60, lambda: "no program is up")
        end_together(parts)
        assert [part.log.read_text() for part in parts] == ["up\nboth\n"] * 2
        assert not any(part.running for part in parts)


def test_a_killed_process_that_nobody_reaps_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "_FAREWELL_SECONDS", 0.1)
    script = (
        "import subprocess, sys, time\n"
        "print(subprocess.Popen(['sleep', '60']).pid, flush=True)\n"
        "time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        process = psutil.Process(int(parent.stdout.readline()))
        kill_all([process])
        assert process.status() == psutil.STATUS_ZOMBIE
        parent.kill()
