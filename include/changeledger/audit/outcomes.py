"""What Great Expectations is asked of a DataFrame, and what it says of one rule."""

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
    """Of one rule for one subject; `errored`: it could not be checked, `error` says why.

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
    """What kept an expectation from being evaluated.

    `exception_info` holds `raised_exception` itself, or one such entry for each metric that failed.
    """
    info = result.exception_info or {}
    entries = [info, *(entry for entry in info.values() if isinstance(entry, dict))]
    raised = [str(entry.get("exception_message")) for entry in entries if entry.get("raised_exception")]
    return said(raised[0]) if raised else None


def said(message: str) -> str:
    """A message in one line: its first, or that of the exception below a traceback of Python's workers."""
    lines = [line for line in message.splitlines() if line.strip()]
    tracebacks = [at for at, line in enumerate(lines) if line.startswith("Traceback")]
    if tracebacks:
        lines = [line for line in lines[tracebacks[-1] + 1 :] if not line.startswith(" ")]
    return lines[0].strip() if lines else "without a message"


def failure_severity(severity: Severity) -> FailureSeverity:
    """As Great Expectations knows it: it has no error."""
    from great_expectations.expectations.metadata_types import FailureSeverity  # noqa: PLC0415

    return FailureSeverity.WARNING if severity == "warning" else FailureSeverity.CRITICAL


def spark_batch(context: AbstractDataContext, name: str) -> BatchDefinition[Any]:
    """Of a DataFrame whose rows the caller keeps at hand."""
    source = context.data_sources.add_spark(name, persist=False)
    return source.add_dataframe_asset(name).add_batch_definition_whole_dataframe(name)


def with_samples(columns: Sequence[str]) -> dict[str, Any]:
    """The format of results that show some of the rows which break a rule, in these columns."""
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
    """The suite validated on the frame, and kept for Data Docs under its name."""
    import great_expectations as gx  # noqa: PLC0415

    definition = gx.ValidationDefinition(name=suite.name, data=batch, suite=context.suites.add(suite))
    added = context.validation_definitions.add(definition)
    return added.run(batch_parameters={"dataframe": frame}, result_format=shown, run_id=run)
