"""Rows, agreement and cutover as pages: permissions, escaping, redaction."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.airflow_ui.pages import Installation
from tests.state.pairs import NEW, OLD, compare, prove
from tests.state.tables import HOSTILE, publish

NOW = datetime.now(UTC)


@pytest.fixture
def pair(ledger: Installation) -> Installation:
    for name in (OLD, NEW):
        ledger.add_feed(name, "dbo.customers")
        publish(ledger.control, name)
    return ledger


def text(ledger: Installation, address: str, status: int = 200) -> str:
    answer = ledger.client.get(address)
    assert answer.status_code == status, answer.text
    return answer.text


def test_a_row_and_the_same_row_of_the_other_feed(pair: Installation) -> None:
    page = text(pair, f"/feeds/{OLD}/rows?table=dbo.customers&key.id=1")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert HOSTILE not in page
    assert f"<th>{NEW}" in page
    assert "named" in page
    assert "release 1" in page
    assert "not_captured" in page
    found = text(pair, f"/feeds/{OLD}/rows?table=dbo.customers&value=ann")
    assert "key.id=1" in found


def test_only_feeds_that_the_user_may_see(pair: Installation) -> None:
    pair.user.sees = {OLD}
    assert NEW not in text(pair, f"/feeds/{OLD}/rows?table=dbo.customers&key.id=1")
    text(pair, f"/feeds/{NEW}/rows?table=dbo.customers&key.id=1", 403)
    compare(pair.control, 1, 9, NOW - timedelta(days=9), NOW)
    assert NEW not in text(pair, "/agreement/shop")
    assert "no feed" in text(pair, f"/cutover/shop?old={OLD}&new={NEW}")
    pair.user.sees = set()
    text(pair, "/agreement/shop", 404)
    text(pair, "/cutover/shop", 404)


def test_values_are_redacted(pair: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHANGELEDGER_REDACT_VALUES", "true")
    page = text(pair, f"/feeds/{OLD}/rows?table=dbo.customers&key.id=1")
    assert "***" in page
    assert "alert(1)" not in page
    assert ">ann<" not in page
    assert "name the key" in text(pair, f"/feeds/{OLD}/rows?table=dbo.customers&value=ann")


def test_agreement_says_that_the_last_run_failed(pair: Installation) -> None:
    compare(pair.control, 1, 9, NOW - timedelta(days=9), NOW, equal=5, missing=2)
    pair.control.save_failure_of_database("compare_shop", "SparkUnavailable: <b>gone</b>")
    page = text(pair, "/agreement/shop")
    assert "The last comparison failed" in page
    assert "&lt;b&gt;gone" in page
    assert "verdict=missing" in page


def test_cutover_as_page_and_json(pair: Installation) -> None:
    compare(pair.control, 1, 9, NOW - timedelta(days=9), NOW)
    prove(pair.control, NOW)
    page = text(pair, f"/cutover/shop?old={OLD}&new={NEW}")
    assert "May shop_debezium replace shop_cdc?" in page
    said = pair.client.get(f"/cutover/shop?old={OLD}&new={NEW}&json=true").json()
    assert said["compared"]["events"] == 5000
