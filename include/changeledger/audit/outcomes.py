"""What Great Expectations says of one rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from changeledger.audit.rules import Severity

if TYPE_CHECKING:
    from great_expectations.core import ExpectationValidationResult
    from great_expectations.expectations.metadata_types import FailureSeverity


@dataclass(frozen=True)
class RuleOutcome:
    """Of one rule for one subject; `errored`: it could not be checked.

    `violations`: rows that break it, or what is wrong in sums. `checked`: how many changes were checked.
    """

    success: bool
    errored: bool = False
    violations: int | None = 0
    checked: int | None = None
    error: str | None = None
    samples: tuple[dict[str, Any], ...] = ()


# By subject and rule name.
Outcomes = dict[tuple[str, str], RuleOutcome]


def exception(result: ExpectationValidationResult) -> str | None:
    """What kept an expectation from being evaluated.

    `exception_info` holds `raised_exception` itself, or one such entry for each metric that failed.
    """
    info = result.exception_info or {}
    entries = [info, *(entry for entry in info.values() if isinstance(entry, dict))]
    raised = [str(entry.get("exception_message")) for entry in entries if entry.get("raised_exception")]
    return raised[0].split("\n", 1)[0] if raised else None


def failure_severity(severity: Severity) -> FailureSeverity:
    """As Great Expectations knows it: it has no error."""
    from great_expectations.expectations.metadata_types import FailureSeverity  # noqa: PLC0415

    return FailureSeverity.WARNING if severity == "warning" else FailureSeverity.CRITICAL
