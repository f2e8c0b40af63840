"""A process that leaves at once still runs its exit functions."""

from __future__ import annotations

import subprocess
import sys

_PROCESS = """
import atexit, logging, sys
from logging.handlers import MemoryHandler
from changeledger.console.process import leave

class Taken:
    def __del__(self):
        print("taken apart")

kept = Taken()
atexit.register(print, "at the exit")
logging.getLogger().addHandler(MemoryHandler(99, target=logging.StreamHandler(sys.stdout)))
logging.warning("kept until then")
print("no end of line", end="", file=sys.stderr)
leave(75)
"""


def test_exit_functions_run_and_all_is_printed() -> None:
    ended = subprocess.run([sys.executable, "-c", _PROCESS], capture_output=True, text=True, check=False)
    assert ended.returncode == 75
    assert ended.stdout.splitlines() == ["at the exit", "kept until then"]
    assert ended.stderr == "no end of line"
