"""Erasing a key removes everything that shows rows, and keeps the fact that a rule has failed."""

from __future__ import annotations

from pathlib import Path

from changeledger.control import AuditResult, BuiltSnapshots, ControlStore
from tests.control.test_control import FEED, hour, lsn

PASSED = AuditResult("dbo.customers", "named", True, 0, {})
FAILED = AuditResult("dbo.customers", "whole", False, 1, {})
# Great Expectations' page shows the greatest name.
OF_USERS = AuditResult("dbo.customers", "expect_column_max_to_be_between name", True, 0, {})


def test_pages_stay_of_audits_that_are_known_to_show_no_row(tmp_path: Path) -> None:
    store, built = ControlStore(f"sqlite:///{tmp_path}/control.db"), BuiltSnapshots("branch", {})
    store.leases.acquire(FEED, "a run", 60)
    for number, verdicts in enumerate(([PASSED], [PASSED, FAILED], [FAILED], [PASSED, OF_USERS])):
        store.windows.open(FEED, hour(number), None, lsn(1))
        store.audits.save(FEED, hour(number), verdicts, built)
    store.windows.begin_stage(FEED, hour(2), "extract")
    assert store.upkeep.passed_windows(FEED, {"named", "whole"}) == {hour(0).id}


def test_no_verdict_and_no_failure_shows_a_row(tmp_path: Path) -> None:
    """Covers a rule that failed, one that was not checked, and one that passes nevertheless (`mostly`)."""
    store = ControlStore(f"sqlite:///{tmp_path}/control.db")
    store.leases.acquire(FEED, "a run", 60)
    says = {"says": "Each row has a name.", "first": None, "error": None}
    row, error = {**says, "first": "id=42, name=Ann"}, {**says, "error": "the value 'Ann' cannot be cast"}
    results = [
        AuditResult("dbo.customers", "named", False, 1, row),
        AuditResult("dbo.customers", "cast", False, 0, error),
        AuditResult("dbo.customers", "mostly", True, 1, row),
        AuditResult("dbo.customers", "whole", False, 2, says),
    ]
    for feed in (FEED, "another"):
        store.windows.open(feed, hour(0), None, lsn(1))
        store.audits.save(feed, hour(0), results, BuiltSnapshots("branch", {}))
        store.failures.save(feed, hour(0), "audit", "AuditFailed: id=42, name=Ann")
    for name in ("compare_shop", "verify_shop", "verify_another"):
        store.failures.save_of_database(name, "PublishedDrifts: the first: key {'id': 42}")
    store.upkeep.forget_shown_rows(FEED, "compare_shop", "verify_shop")
    verdicts = store.audits.of_window(FEED, hour(0).id)
    assert {(v.rule, v.success, v.violations) for v in verdicts} == {(r[1], r[2], r[3]) for r in results}
    assert {v.rule for v in verdicts if v.detail["error"]} == {"cast"}, "it was not checked"
    assert {v.detail["says"] for v in verdicts} == {"Each row has a name."}
    assert not [v for v in verdicts if "Ann" in str(v.detail)]
    for name in (FEED, "compare_shop", "verify_shop"):
        assert store.failures.of_feed(name) is None
    others = store.audits.of_window("another", hour(0).id)
    assert [v.rule for v in others if "Ann" in str(v.detail)] == ["cast", "mostly", "named"]
    assert store.failures.of_feed("another") is not None
    assert store.failures.of_feed("verify_another") is not None
