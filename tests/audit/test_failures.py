"""In words what a rule has not passed by: one that was not checked has no number of rows."""

from __future__ import annotations

from changeledger.audit.gate import RuleResult
from changeledger.audit.outcomes import RuleOutcome
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
