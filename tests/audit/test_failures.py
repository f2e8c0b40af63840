"""Describes failed rules in words. A rule that was not checked has no number of rows."""

from __future__ import annotations

from changeledger.audit.gate import RuleResult
from changeledger.audit.outcomes import RuleOutcome, said
from changeledger.control import AuditRow

MISSING = "AnalysisException: no column `nope`"


def result(outcome: RuleOutcome) -> RuleResult:
    return RuleResult(**vars(outcome), table="dbo.t", rule="no_nope", says="", severity="warning")


def row(violations: int, error: str | None) -> AuditRow:
    return AuditRow(table="dbo.t", rule="no_nope", violations=violations, detail={"error": error})


def test_a_rule_that_rows_violate() -> None:
    assert result(RuleOutcome(False, violations=1)).failure == "has failed (1 row)"
    assert row(2, None).summary == "dbo.t: no_nope (2)"


def test_a_rule_that_could_not_be_checked() -> None:
    assert result(RuleOutcome.unchecked(MISSING)).failure == f"could not be checked ({MISSING})"
    assert row(0, MISSING).summary == "dbo.t: no_nope (not checked)"


def test_an_error_of_a_worker_is_said_by_its_exception() -> None:
    worker = (
        "\n  An exception was thrown from the Python worker.\nTraceback (most recent call last):\n"
        '  File "strftime.py", line 7, in check\n    raise TypeError(\n'
        "TypeError: Values must be of type string.\n"
        "If you want to check dates, convert them.\n"
    )
    assert said(worker) == "TypeError: Values must be of type string."
    assert said("[CAST_INVALID_INPUT] The value\n== SQL ==") == "[CAST_INVALID_INPUT] The value"
    assert said("\n") == "without a message"
