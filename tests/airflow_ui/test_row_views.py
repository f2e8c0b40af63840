"""Permissions, escaping and redaction on the pages Row, Agreement and Cutover."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from changeledger.airflow_ui import database_views, row_links, row_views
from changeledger.airflow_ui.row_links import RowPage
from changeledger.config.settings import PROJECT
from changeledger.model.window import Window
from tests.airflow_ui.pages import SAME_ORIGIN, Installation
from tests.state.pairs import NEW, OLD, compare, prove
from tests.state.tables import HOSTILE, publish

NOW = datetime.now(UTC)
RULES = PROJECT / "docs" / "cutover.md"


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
    search = text(pair, f"/feeds/{OLD}/rows?table=dbo.customers&value=ann")
    assert "key.id=1" in search


def test_a_time_outside_of_all_years_is_no_time(pair: Installation) -> None:
    for time in ("0001-01-01T00:00%2B10:00", "9999-12-31T23:59-10:00"):
        page = text(pair, f"/feeds/{OLD}/rows?table=dbo.customers&key.id=1&as_of={time}")
        assert "is not a time" in page, time


def test_only_feeds_that_the_user_may_see(
    pair: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHANGELEDGER_DATABASES", str(tmp_path))
    (tmp_path / "shop.yaml").write_text(f"{{database: shop, reference: {NEW}}}")
    pair.user.sees = {OLD}
    assert NEW not in text(pair, f"/feeds/{OLD}/rows?table=dbo.customers&key.id=1")
    text(pair, f"/feeds/{NEW}/rows?table=dbo.customers&key.id=1", 403)
    compare(pair.control, 1, 9, NOW - timedelta(days=9), NOW)
    assert NEW not in text(pair, "/agreement/shop")
    assert "no feed" in text(pair, f"/cutover/shop?old={OLD}&new={NEW}")
    pair.user.sees = set()
    text(pair, "/agreement/shop", 404)
    text(pair, "/cutover/shop", 404)


def test_hidden_values_are_in_no_page_and_in_no_address(
    pair: Installation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The key is typed into a form that posts it. Links name a change of the row."""
    monkeypatch.setenv("CHANGELEDGER_REDACT_VALUES", "true")
    asked = {"table": "dbo.customers", "key.id": "7"}
    page = form(pair, asked)
    assert 'method="post"' in page
    assert page.count("***") > 5
    (address,) = set(re.findall(r'href="[^"]*(/feeds/shop_cdc/rows[?][^"]*side=before)"', page))
    before = text(pair, address.replace("&amp;", "&"))
    assert "Its life: 4 changes" in before
    secrets = ("alert(1)", ">ann<", 'value="7"', "key.id=", ">7<", 'value="1"', ">1<")
    for shown in (page, before):
        assert [secret for secret in secrets if secret in shown] == []
    # Not even what was wrong of it.
    assert "not of that type" in form(pair, {**asked, "key.id": "41-secret-41"})
    assert "41-secret-41" not in form(pair, {**asked, "key.id": "41-secret-41"})
    assert "41-secret-41" not in caplog.text
    for refused, why in (("key.id=1", "kept in logs"), ("value=ann", "enter the key")):
        page = text(pair, f"/feeds/{OLD}/rows?table=dbo.customers&{refused}")
        assert why in page
        assert "Its life" not in page
    elsewhere = pair.client.post(f"/feeds/{OLD}/rows", data=asked, headers={"Sec-Fetch-Site": "cross-site"})
    assert elsewhere.status_code == 403


def form(ledger: Installation, asked: dict[str, str]) -> str:
    answer = ledger.client.post(f"/feeds/{OLD}/rows", data=asked, headers=SAME_ORIGIN)
    assert answer.status_code == 200, answer.text
    return answer.text


def test_a_part_of_a_key_may_be_an_empty_text() -> None:
    key = {"region": "", "no": "7"}
    address = row_links.by_key(RowPage("", OLD, "dbo.t"), key)
    assert row_views._key(dict(parse_qsl(urlsplit(address).query, keep_blank_values=True))) == key
    assert row_views._key({"table": "dbo.t", "key.region": "", "key.no": ""}) == {}, "nothing is typed"


def test_rows_that_changed_last_are_offered(pair: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"/feeds/{OLD}/rows?table=dbo.customers"
    keys = re.findall(r"key\.id=(\d)\"", text(pair, address))
    assert keys == ["2", "1", "7"], "the last one first"
    assert "Rows that changed last" not in text(pair, f"{address}&key.id=1")
    monkeypatch.setenv("CHANGELEDGER_REDACT_VALUES", "true")
    page = text(pair, address)
    assert "key.id=" not in page
    first, *_ = re.findall(r'href="/changeledger(/feeds/shop_cdc/rows[?][^"]*change=[^"]*)">[*]{3}<', page)
    assert "Its life: 1 change<" in text(pair, first.replace("&amp;", "&"))


def test_a_mask_is_spoken_of_where_there_is_one(pair: Installation) -> None:
    page = text(pair, f"/feeds/{OLD}/rows?table=dbo.customers&key.id=1")
    assert page.count("<th>mask</th>") == page.count("mask <code>02</code>") == 1
    assert "which columns the mask names" not in page


def test_agreement_says_that_the_last_run_failed(pair: Installation) -> None:
    compare(pair.control, 1, 9, NOW - timedelta(days=9), NOW, equal=5, missing=2)
    error = "SparkUnavailable: <b>gone</b>\n  Remedy: set `spark`"
    pair.control.failures.save_of_database("compare_shop", error)
    page = text(pair, "/agreement/shop")
    assert "The last comparison failed" in page
    assert "<pre>SparkUnavailable: &lt;b&gt;gone&lt;/b&gt;</pre>" in page
    assert "set <code>spark</code>" in page
    assert 'href="/dags/compare_shop"' in page
    assert "verdict=missing" in page


def test_agreement_over_time_as_a_picture_and_in_words(pair: Installation) -> None:
    for day, counts in ((2, {"equal": 900, "expected": 90}), (1, {"equal": 10**6, "differs": 1})):
        at = NOW - timedelta(days=day)
        compare(pair.control, day, day + 1, at - timedelta(hours=9), at, **counts)
    compare(pair.control, 50, 51, NOW - timedelta(days=50), NOW - timedelta(days=49), equal=7777)
    page = text(pair, "/agreement/shop")
    said = "1,000,991 events compared on 2 of the last 31 days, 1 of them unexplained"
    assert f'role="img" aria-label="{said}"' in page
    assert page.count('<rect class="c6" x=') == 1
    assert re.search(
        r"<title>\S+: 1,000,001 events compared, 1,000,000 equal, 0 expected, 1 unexplained", page
    )
    assert "7,777" not in page
    assert "7,777" in text(pair, "/agreement/shop?days=90")
    text(pair, "/agreement/shop?days=0", 422)


def test_hostile_names_of_tables_stay_text(pair: Installation) -> None:
    at = NOW - timedelta(days=1)
    compare(pair.control, 1, 9, at, at, table=f'dbo."{HOSTILE}', equal=5, differs=1)
    page = text(pair, "/agreement/shop")
    assert HOSTILE not in page
    assert "&lt;script&gt;alert(1)" in page
    selected = text(pair, f"/agreement/shop?tables={HOSTILE}")
    assert HOSTILE not in selected
    assert "1 of 1" in selected


def test_cutover_as_page_and_json(pair: Installation) -> None:
    compare(pair.control, 1, 9, NOW - timedelta(days=9), NOW)
    prove(pair.control, NOW)
    page = text(pair, f"/cutover/shop?old={OLD}&new={NEW}")
    assert "May shop_debezium replace shop_cdc?" in page
    assert '<a class="no-print"' not in page, "there is nothing to do"
    said = pair.client.get(f"/cutover/shop?old={OLD}&new={NEW}&json=true").json()
    assert said["compared"]["events"] == 5000


def test_a_reason_of_cutover_leads_to_where_it_is_dealt_with(pair: Installation) -> None:
    at = NOW - timedelta(days=9)
    compare(pair.control, 1, 9, at, NOW, reference=NEW, equal=5000, extra=3)
    prove(pair.control, at)
    pair.control.failures.save(OLD, Window(start=at, end=NOW), "audit", "AuditFailed: a rule")
    page = text(pair, f"/cutover/shop?old={OLD}&new={NEW}")
    link = r'<li>.*<a class="no-print" href="([^"]*)".*<code class="code">(\w+)</code></li>'
    reasons = {reason: address for address, reason in re.findall(link, page)}
    assert reasons == {
        "lost": f"/changeledger/agreement/shop?reference={OLD}&amp;feed={NEW}",
        "old_proof": "/dags/verify_shop",
        "run_failed": f"/changeledger/feeds/{OLD}",
    }
    page = text(pair, f"/agreement/shop?reference={OLD}&feed={NEW}")
    assert f"<h2>{NEW} and {OLD}" in page, "whichever was the reference"
    # Every place is a reason of docs/cutover.md.
    assert set(database_views._PLACES) <= set(re.findall(r"`(\w+)`", RULES.read_text("utf-8")))


def test_one_feed_has_none_to_be_compared_with(ledger: Installation) -> None:
    ledger.add_feed(OLD, "dbo.customers")
    publish(ledger.control, OLD)
    page = text(ledger, "/agreement/shop")
    assert f"{OLD} is the only feed of shop that you may see" in page
    assert "data-docs" not in page, "there are no reports"
    page = text(ledger, "/cutover/shop")
    assert f"{OLD} is the only feed of shop that you may see" in page
    assert "<form" not in page
