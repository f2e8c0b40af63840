"""A failed audit on the pages: reason, rows and remedy, without a terminal."""

from __future__ import annotations

import json
from typing import Any

from changeledger.audit import page
from changeledger.audit.gate import RuleResult
from changeledger.config.settings import Settings
from changeledger.control import AuditResult, BuiltSnapshots
from changeledger.model.contract import Contract
from changeledger.model.window import Window
from tests.airflow_ui.pages import Installation
from tests.released import DAY, release

BASE = "/changeledger/feeds/shop"
LIMIT, TABLE = "quarantine_limit", "dbo.t"
WINDOW = Window(start=DAY.end, end=DAY.end.replace(minute=30))
CONTRACT = Contract.model_validate(
    {
        "table": TABLE,
        "columns": [
            {"ordinal": 1, "name": "id", "type": "int", "nullable": False, "key_position": 1},
            {"ordinal": 2, "name": "credit", "type": "int"},
        ],
    }
)  # fmt: skip


def fail(ledger: Installation, table: str, rule: str, *rows: dict[str, Any], says: str = "A rule.") -> None:
    """Lets the rule stop the second window of the feed `shop`, with these rows."""
    ledger.add_feed("shop")
    release(ledger.control, "shop", [CONTRACT], DAY, {}, {"records": 1}, {"lsn": "0" * 20})
    detail = {"says": says, "severity": "error", "stops": True, "tolerated": None, "error": None}
    ledger.control.windows.open("shop", WINDOW, None, {"lsn": "1" * 20})
    verdict = AuditResult(table, rule, False, len(rows), detail)
    warning = AuditResult(table, "no_quarantined_records", False, 1, {**detail, "stops": False})
    verdicts = [verdict, *([warning] if rule == LIMIT else [])]
    ledger.control.audits.save("shop", WINDOW, verdicts, BuiltSnapshots("b", {}))
    ledger.control.failures.save(
        "shop", WINDOW, "audit", "AuditFailed: it failed\n  Remedy: look\nSELECT * FROM t"
    )
    result = RuleResult(
        False,
        violations=len(rows),
        checked=9,
        samples=rows,
        table=table,
        rule=rule,
        says=says,
        severity="error",
    )
    audit = page.Audit("shop", WINDOW, "branch", [result])
    page.write(Settings().data_docs / "shop" / WINDOW.id, audit, {table: ["SELECT 1"]})


def test_rows_lead_to_their_lives_by_key(ledger: Installation) -> None:
    of_change = {"key": json.dumps({"id": 487}), "why": "the mask contradicts the images"}
    fail(ledger, TABLE, "mask_agrees_with_images", of_change, {"id": 7, "credit": 11})
    for path in (BASE, f"{BASE}/windows/{WINDOW.id}"):
        text = ledger.client.get(path).text
        for key in (487, 7):
            assert f'href="{BASE}/rows?table=dbo.t&amp;key.id={key}"' in text
        # Columns that the first row lacks are shown, too.
        assert "<th>credit</th>" in text
        assert text.index("nothing was published") < text.index("SELECT * FROM t")


def test_hidden_keys_lead_nowhere(ledger: Installation, monkeypatch: Any) -> None:
    fail(ledger, TABLE, "mask_agrees_with_images", {"key": "***"}, {"key": '{"id": 4'}, {"id": 7})
    assert "rows?table" in ledger.client.get(BASE).text
    monkeypatch.setenv("CHANGELEDGER_REDACT_VALUES", "true")
    assert "rows?table" not in ledger.client.get(BASE).text


def test_a_wrong_setting_is_named_with_its_remedy(ledger: Installation) -> None:
    says = "At most 9 of 910 records are quarantined (limit 0.01); 910 are."
    why = "dbo.t: mask_order_contradicted: the feed states little"
    fail(ledger, "feed shop", LIMIT, {"why": "910 mask_order_contradicted"}, {"why": why}, says=says)
    text = ledger.client.get("/changeledger/").text
    assert f"The audit has stopped a window because of {LIMIT}. {says}" in text
    text = ledger.client.get(BASE).text
    assert "2 records" in text
    assert "The setting <code>mask_order</code> of the feed&#39;s YAML names the wrong end" in text
    text = ledger.client.get(f"{BASE}/quarantine").text
    assert f'<a href="{BASE}/windows/{WINDOW.id}">the last window</a>' in text


def test_reasons_of_one_remedy_are_named_together(ledger: Installation) -> None:
    fail(ledger, "feed shop", LIMIT, {"why": "9 no_source, 8 not_an_object, 7 not_utf8"})
    text = ledger.client.get(BASE).text
    assert "<b><code>no_source</code>, <code>not_an_object</code>:</b> The message lacks a part" in text
    assert "<b><code>not_utf8</code>:</b> The record itself is damaged" in text
