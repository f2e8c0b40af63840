"""What shows rows goes when a key is erased; that a rule has failed stays."""

from __future__ import annotations

from pathlib import Path

from changeledger.control import AuditResult, BuiltSnapshots, ControlStore
from tests.control.test_control import FEED, hour, lsn

PASSED = AuditResult("dbo.customers", "named", True, 0, {})
FAILED = AuditResult("dbo.customers", "whole", False, 1, {})


def test_pages_stay_of_audits_that_are_known_to_show_no_row(tmp_path: Path) -> None:
    store, built = ControlStore(f"sqlite:///{tmp_path}/control.db"), BuiltSnapshots("branch", {})
    store.leases.acquire(FEED, "a run", 60)
    for number, verdicts in enumerate(([PASSED], [PASSED, FAILED], [FAILED])):
        store.windows.open(FEED, hour(number), None, lsn(1))
        store.audits.save(FEED, hour(number), verdicts, built)
    store.windows.begin_stage(FEED, hour(2), "extract")
    assert store.upkeep.passed_windows(FEED) == {hour(0).id}


def test_no_verdict_and_no_failure_shows_a_row(tmp_path: Path) -> None:
    store = ControlStore(f"sqlite:///{tmp_path}/control.db")
    store.leases.acquire(FEED, "a run", 60)
    for feed in (FEED, "another"):
        store.windows.open(feed, hour(0), None, lsn(1))
        detail = {"says": "Each row has a name.", "first": "id=42, name=Ann"}
        results = [AuditResult("dbo.customers", "named", False, 1, detail)]
        store.audits.save(feed, hour(0), results, BuiltSnapshots("branch", {}))
        store.failures.save(feed, hour(0), "audit", "AuditFailed: id=42, name=Ann")
    store.upkeep.forget_shown_rows(FEED)
    (verdict,) = store.audits.of_window(FEED, hour(0).id)
    assert verdict.detail == {"says": "Each row has a name.", "first": None}
    assert (verdict.success, verdict.violations) == (False, 1)
    assert store.failures.of_feed(FEED) is None
    (other,) = store.audits.of_window("another", hour(0).id)
    assert other.detail["first"] == "id=42, name=Ann"
    assert store.failures.of_feed("another") is not None
