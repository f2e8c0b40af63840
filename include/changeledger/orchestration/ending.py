"""How a task logs its job and fails: error and remedy are the last lines of its log, without a traceback.

Airflow 3.3 logs every exception of an operator with its traceback, even AirflowFailException, but a
SystemExit without one. It retries after a SystemExit, unless the task's retry policy says no
(`task_runner.py`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from airflow.sdk import RetryDecision, RetryPolicy

if TYPE_CHECKING:
    from airflow.sdk import Context

# Lines in the format of `changeledger.job`. Time and level are cut off, because Airflow logs them itself.
_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (DEBUG|INFO|WARNING|ERROR|CRITICAL) (.*)")
_TRACEBACK = "Traceback (most recent call last):"


class Failed(SystemExit):
    """The failure of a task. `final`: another try would fail in the same way. `str` is the whole error."""

    def __init__(self, error: str, *, final: bool = True) -> None:
        self.error, self.final = error, final
        # Airflow shows this as `exit_code` in the last line: the first line of the remedy, if there is one.
        lines = [line.strip() for line in error.splitlines()]
        super().__init__(next((line for line in lines if line.startswith("Remedy: ")), lines[-1]))

    def __str__(self) -> str:
        return self.error


class UnlessFinal(RetryPolicy):
    """Retries as the task's `retries` say, except after a final failure."""

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
    """Assigns levels to lines. Keeps the last error for the log's end, whatever Spark prints after it."""

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
                # The job has gone on, so the error kept so far is not the last.
                yield from self.kept()
            # An error continues in lines that begin with blanks, a traceback until our next line.
            goes_on = within and not entry and (line[:1].isspace() or self.error[0] == _TRACEBACK)
            within = begins or goes_on
            if within:
                self.error.append(text)
            else:
                yield level, text

    def kept(self) -> Iterator[tuple[int, str]]:
        """Yields the lines that were kept, once they turn out not to be the log's end."""
        lines, self.error = self.error, []
        yield from ((logging.ERROR, line) for line in lines)
