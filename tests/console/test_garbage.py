"""Jobs, commands and Spark's workers collect garbage rarely.

A program that uses the library decides itself.
"""

from __future__ import annotations

import subprocess
import sys

import pytest


def threshold_after(program: str) -> int:
    program = f"{program}; import gc; print(gc.get_threshold()[0])"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return int(ended.stdout.split()[-1])


@pytest.mark.parametrize(
    "program",
    [
        "import changeledger.job",
        "from changeledger.cli.main import main; main(['--version'])",
        "import pyspark.worker, changeledger.spark.tasks",
    ],
)
def test_jobs_commands_and_workers_look_rarely(program: str) -> None:
    assert threshold_after(program) == 50_000


def test_the_library_leaves_it() -> None:
    library = "import changeledger.reader, changeledger.cli.main, changeledger.spark.tasks"
    assert threshold_after(library) == threshold_after("pass")
