"""Rows that break a rule, from the file that the audit writes beside its page."""

from __future__ import annotations

from pathlib import Path

import pytest

from changeledger.audit import page
from changeledger.audit.gate import RuleResult
from changeledger.config.settings import Settings
from changeledger.state.audit_rows import has_data_docs, offending_rows
from tests.released import DAY


def result(rule: str, *samples: dict[str, object]) -> RuleResult:
    return RuleResult(
        not samples, violations=len(samples), checked=9, samples=samples,
        table="dbo.t", rule=rule, says="A rule.", severity="error",
    )  # fmt: skip


def test_rows_as_text_of_rules_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path))
    settings = Settings()
    assert offending_rows(settings, "shop", DAY.id) == {}
    rows = {"sort_key": b"\x01\xff", "note": "a\x1b[2J", "gone": None, "images": []}
    results = [result("order_strict", rows), result("lsn_width")]
    audit = page.Audit("shop", DAY, "branch", results)
    page.write(settings.data_docs / "shop" / DAY.id, audit, {"dbo.t": ["SELECT 1"]})
    assert offending_rows(settings, "shop", DAY.id) == {
        ("dbo.t", "order_strict"): [{"sort_key": "0x01FF", "note": "a\\x1b[2J"}]
    }
    assert has_data_docs(settings, "shop", DAY.id)
