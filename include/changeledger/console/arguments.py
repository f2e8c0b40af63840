"""The command lines of jobs, whose `--help` ends with the exit codes."""

from __future__ import annotations

import argparse
from typing import Any, ClassVar

from changeledger import exit_codes


class JobParser(argparse.ArgumentParser):
    """The parser of the scripts in `jobs/`. Airflow's task acts on the exit code."""

    codes: ClassVar = {
        0: "done",
        1: "a fault of this program or of Spark, with its traceback: try again",
        exit_codes.FINAL: "stopped, or wrong arguments: the last lines say why and what to do; "
        "another try stops in the same way",
        exit_codes.RETRY: "a source does not answer: try again",
        exit_codes.HELD: "another process has the lease: try again later",
        exit_codes.NOTHING: "done, and nothing is left for the stages that follow",
        exit_codes.NEEDS_SPARK: "with --no-spark: the source has something new, which Spark reads",
    }

    def __init__(self, **settings: Any) -> None:
        lines = "".join(f"  {code:<4}{meaning}\n" for code, meaning in self.codes.items())
        keeps_lines = argparse.RawDescriptionHelpFormatter
        super().__init__(epilog=f"exit codes:\n{lines}", formatter_class=keeps_lines, **settings)
