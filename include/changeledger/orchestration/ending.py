"""How a task fails: its error and the remedy are the last lines of its log, at ERROR, without a traceback.

Airflow 3.3 logs every exception of an operator with its traceback, AirflowFailException among them, and a
SystemExit without one. That it retries, unless the task's retry policy says no (`task_runner.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import RetryDecision, RetryPolicy

if TYPE_CHECKING:
    from airflow.sdk import Context


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
