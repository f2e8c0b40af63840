"""Accepting on the page Agreement that feeds disagree: user, reason, and table."""

from __future__ import annotations

import pytest

from changeledger.airflow_ui import database_views
from changeledger.airflow_ui.app import app
from changeledger.control import ComparisonRow
from sourcelab.filled_store import FilledFeed
from tests.airflow_ui.pages import SAME_ORIGIN, Installation
from tests.airflow_ui.test_views import fill_in

PAGE = "/agreement/shop?reference=shop_cdc&feed=shop_ces"
FORM = "/feeds/shop_ces/accept"
TABLES = ("dbo.customers", "dbo.orders")


@pytest.fixture
def shop(ledger: Installation, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """A feed that disagrees with the reference in its first table. Airflow's log would need its database."""
    monkeypatch.setitem(app.dependency_overrides, database_views.LOGGED, lambda: None)
    reference = FilledFeed("shop_cdc", tables=TABLES, windows=2)
    other = FilledFeed("shop_ces", tables=TABLES, windows=2, trouble="differ", reference="shop_cdc")
    fill_in(ledger, reference, other)
    return ledger


def test_what_disagrees_is_accepted_for_a_table_with_user_and_reason(shop: Installation) -> None:
    asks = shop.client.get(PAGE).text
    assert f'action="/changeledger{FORM}"' in asks
    assert "<option>dbo.customers</option>" in asks
    assert "<option>dbo.orders</option>" not in asks, "it agrees"
    form = {"reference": "shop_cdc", "table": "dbo.customers", "reason": "<i>lost an hour</i>", "by": "eve"}
    assert shop.client.post(FORM, data={**form, "reason": " "}, headers=SAME_ORIGIN).status_code == 422
    assert shop.control.comparisons.disagreements("shop") != []
    answer = shop.client.post(FORM, data=form, headers=SAME_ORIGIN)
    assert answer.status_code == 303
    assert answer.headers["Location"] == f"/changeledger{PAGE}#tables"
    assert shop.control.comparisons.disagreements("shop") == []
    page = shop.client.get(PAGE).text
    assert "ann: &lt;i&gt;lost an hour&lt;/i&gt;" in page
    assert FORM not in page, "nothing is left to accept"
    assert shop.client.post(FORM, data=form, headers=SAME_ORIGIN).status_code == 409


def test_nothing_is_accepted_without_permission_or_from_elsewhere(shop: Installation) -> None:
    form = {"reference": "shop_cdc", "reason": "why"}
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil"}, {}):
        assert shop.client.post(FORM, data=form, headers=headers).status_code == 403
    shop.user.triggers = {"shop_cdc"}
    assert shop.client.post(FORM, data=form, headers=SAME_ORIGIN).status_code == 403
    page = shop.client.get(PAGE).text
    assert FORM not in page
    assert "permission to trigger shop_ces" in page
    assert shop.control.comparisons.disagreements("shop") != []


def test_nothing_is_accepted_while_the_feeds_are_compared(shop: Installation) -> None:
    """A running comparison would store the disagreement again."""
    shop.control.leases.acquire("compare_shop", "compare_shop (process 7 on worker)", 60)
    form = {"reference": "shop_cdc", "table": "dbo.customers", "reason": "why"}
    answer = shop.client.post(FORM, data=form, headers=SAME_ORIGIN)
    assert answer.status_code == 409
    assert "compare_shop (process 7 on worker) works on the comparison of &#39;shop&#39;" in answer.text
    assert "wait for that run to end" in answer.text
    assert shop.control.comparisons.disagreements("shop") != []


def test_no_other_table_is_accepted_than_the_one_that_is_named(shop: Installation) -> None:
    form = {"reference": "shop_cdc", "table": "dbo.orders", "reason": "why"}
    assert shop.client.post(FORM, data=form, headers=SAME_ORIGIN).status_code == 409
    assert shop.control.comparisons.disagreements("shop") != []


def test_what_the_page_does_not_show_is_not_accepted(shop: Installation) -> None:
    """A disagreement with a feed that was the reference before is not accepted."""
    fill_in(shop, FilledFeed("shop_old", tables=TABLES, windows=2))
    (row,) = shop.control.comparisons.disagreements("shop")
    cells = {column.key: getattr(row, column.key) for column in ComparisonRow.__table__.columns}
    shop.control.comparisons.save(ComparisonRow(**{**cells, "id": "before", "reference": "shop_old"}))
    shop.user.sees = shop.user.triggers = {"shop_cdc", "shop_ces", "shop_old"}
    form = {"reference": "shop_cdc", "reason": "lost"}
    assert shop.client.post(FORM, data=form, headers=SAME_ORIGIN).status_code == 303
    assert [row.reference for row in shop.control.comparisons.disagreements("shop")] == ["shop_old"]
