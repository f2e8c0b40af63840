"""Has Great Expectations validate a DataFrame, and holds the outcome of each rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from changeledger.audit.rules import SAMPLES, Severity

if TYPE_CHECKING:
    from great_expectations import ExpectationSuite
    from great_expectations.core import ExpectationSuiteValidationResult, ExpectationValidationResult
    from great_expectations.core.batch_definition import BatchDefinition
    from great_expectations.data_context.data_context.abstract_data_context import AbstractDataContext
    from great_expectations.expectations.metadata_types import FailureSeverity


@dataclass(frozen=True)
class RuleOutcome:
    """The outcome of one rule for one subject. `errored`: it could not be checked; `error` says why.

    `violations`: rows that break it, or what is wrong in sums; None if it `errored`. `checked`: how many
    changes were checked. `samples`: offending rows.
    """

    success: bool
    errored: bool = False
    violations: int | None = 0
    checked: int | None = None
    error: str | None = None
    samples: tuple[dict[str, Any], ...] = ()

    @classmethod
    def unchecked(cls, error: str | None) -> RuleOutcome:
        return cls(False, errored=True, violations=None, error=error)


# By subject and rule name.
Outcomes = dict[tuple[str, str], RuleOutcome]


def exception(result: ExpectationValidationResult) -> str | None:
    """Returns what kept an expectation from being evaluated, or None if it was.

    `exception_info` holds `raised_exception` itself, or one such entry for each metric that failed.
    """
    info = result.exception_info or {}
    entries = [info, *(entry for entry in info.values() if isinstance(entry, dict))]
    raised = [str(entry.get("exception_message")) for entry in entries if entry.get("raised_exception")]
    return said(raised[0]) if raised else None


def said(message: str) -> str:
    """Returns a message's first line, or that of the exception below a traceback of Python's workers."""
    lines = [line for line in message.splitlines() if line.strip()]
    tracebacks = [at for at, line in enumerate(lines) if line.startswith("Traceback")]
    if tracebacks:
        lines = [line for line in lines[tracebacks[-1] + 1 :] if not line.startswith(" ")]
    return lines[0].strip() if lines else "without a message"


def failure_severity(severity: Severity) -> FailureSeverity:
    """Converts to Great Expectations' severity, which has no `error`."""
    from great_expectations.expectations.metadata_types import FailureSeverity  # noqa: PLC0415

    return FailureSeverity.WARNING if severity == "warning" else FailureSeverity.CRITICAL


def spark_batch(context: AbstractDataContext, name: str) -> BatchDefinition[Any]:
    """Defines a batch of a DataFrame, which Great Expectations does not persist: the caller does."""
    source = context.data_sources.add_spark(name, persist=False)
    return source.add_dataframe_asset(name).add_batch_definition_whole_dataframe(name)


def with_samples(columns: Sequence[str]) -> dict[str, Any]:
    """Returns the format of results that show some of the rows which break a rule, in these columns."""
    return {
        "result_format": "SUMMARY",
        "partial_unexpected_count": SAMPLES,
        "unexpected_index_column_names": list(columns),
        "return_unexpected_index_query": False,
    }


def documented(  # noqa: PLR0913, PLR0917 - what is validated, and how it is shown
    context: AbstractDataContext,
    suite: ExpectationSuite,
    batch: BatchDefinition[Any],
    frame: Any,
    shown: dict[str, Any],
    run: Any,
) -> ExpectationSuiteValidationResult:
    """Validates the suite on the frame, and keeps the result for Data Docs under the suite's name."""
    import great_expectations as gx  # noqa: PLC0415

    definition = gx.ValidationDefinition(name=suite.name, data=batch, suite=context.suites.add(suite))
    added = context.validation_definitions.add(definition)
    return added.run(batch_parameters={"dataframe": frame}, result_format=shown, run_id=run)
