"""Links from a feed to its comparison and its proof on the page Agreement."""

from __future__ import annotations

import re
from html import unescape

from sourcelab.filled_store import FilledFeed
from tests.airflow_ui.pages import Installation
from tests.airflow_ui.test_views import fill_in


def test_a_feed_leads_to_its_own_pair_for_all_who_may_see_it(ledger: Installation) -> None:
    """Each feed links to its own pair, though others disagree, too.

    Access to the database's DAGs is not needed.
    """
    feeds = ("shop_a", "shop_b", "shop_c")
    troubled = [FilledFeed(name, windows=2, trouble="differ", reference="shop_cdc") for name in feeds]
    fill_in(ledger, FilledFeed("shop_cdc", windows=2, reference="shop_cdc"), *troubled)
    assert "compare_shop" not in ledger.user.sees
    for name in feeds:
        for page in ("/", f"/feeds/{name}"):
            text = ledger.client.get(f"/changeledger{page}").text
            links = [unescape(link) for link in re.findall(r'href="([^"]*/agreement/[^"]*)"', text)]
            assert f"/changeledger/agreement/shop?feed={name}" in links, page
        answer = ledger.client.get(f"/changeledger/agreement/shop?feed={name}")
        assert answer.status_code == 200
        assert f"<h2>shop_cdc and {name} " in answer.text
    text = ledger.client.get("/changeledger/feeds/shop_a").text
    assert 'href="/changeledger/agreement/shop?feed=shop_a#proofs"' in text
