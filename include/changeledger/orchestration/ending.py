"""What a task logs of its job, and how it fails: error and remedy are its last lines, without a traceback.

Airflow 3.3 logs every exception of an operator with its traceback, AirflowFailException among them, and a
SystemExit without one. That it retries, unless the task's retry policy says no (`task_runner.py`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from airflow.sdk import RetryDecision, RetryPolicy

if TYPE_CHECKING:
    from airflow.sdk import Context

# As `changeledger.job` has them: Airflow notes time and level itself.
_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (DEBUG|INFO|WARNING|ERROR|CRITICAL) (.*)")
_TRACEBACK = "Traceback (most recent call last):"


class Failed(SystemExit):
    """A task fails; `final` if another try would fail in the same way. `str` is the whole error."""

    def __init__(self, error: str, *, final: bool = True) -> None:
        self.error, self.final = error, final
        # Airflow shows it as `exit_code` in the last line: the remedy's first line, where there is one.
        lines = [line.strip() for line in error.splitlines()]
        super().__init__(next((line for line in lines if line.startswith("Remedy: ")), lines[-1]))

    def __str__(self) -> str:
        return self.error


class UnlessFinal(RetryPolicy):
    """As the task's `retries` say, but for what no try would change."""

    def evaluate(
        self,
        exception: BaseException,
        try_number: int,  # noqa: ARG002 - Airflow's
        max_tries: int,  # noqa: ARG002
        context: Context | None = None,  # noqa: ARG002
    ) -> RetryDecision:
        if isinstance(exception, Failed) and exception.final:
            return RetryDecision.fail("another try would stop in the same way")
        return RetryDecision.default()


class JobLines:
    """Each line with its level. The last error is kept: a log ends with it, whatever Spark prints then."""

    def __init__(self) -> None:
        # The lines of the last error, a Python traceback among them.
        self.error: list[str] = []

    def of(self, printed: Iterable[str]) -> Iterator[tuple[int, str]]:
        within = False
        for line in map(str.rstrip, printed):
            entry = _LINE.match(line)
            level, text = (
                (logging.getLevelNamesMapping()[entry[1]], entry[2]) if entry else (logging.INFO, line)
            )
            begins = level >= logging.ERROR or line == _TRACEBACK
            if entry or begins:
                # The job went on.
                yield from self.kept()
            # An error goes on in lines that begin with blanks, a traceback until the next line of ours.
            goes_on = within and not entry and (line[:1].isspace() or self.error[0] == _TRACEBACK)
            within = begins or goes_on
            if within:
                self.error.append(text)
            else:
                yield level, text

    def kept(self) -> Iterator[tuple[int, str]]:
        """What was kept, and is not the end of the log."""
        lines, self.error = self.error, []
        yield from ((logging.ERROR, line) for line in lines)
