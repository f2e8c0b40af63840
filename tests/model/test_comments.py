"""Each column of each published table has a comment in the catalog."""

from __future__ import annotations

from changeledger.model import change
from changeledger.model.change import LEDGER_COMMENTS, ROW_COMMENTS
from changeledger.model.comments import comments
from changeledger.model.publishing import PublishRule
from tests.model.test_publishing import PEOPLE


def test_every_column_says_where_it_comes_from() -> None:
    rules = {"email": {"hash": True, "rename": "mail"}, "note": "drop"}
    parsed = {name: PublishRule.model_validate(rule) for name, rule in rules.items()}
    contract = PEOPLE.published_by(parsed, "key").read_as("shop.dbo.items")
    current = comments("current", contract, "shop", "people", "ces")
    assert current.table == (
        "Current rows of shop.dbo.items in shop, as the feed people (ces) has them. Not published: note"
    )
    assert current.columns["id",] == "shop.dbo.items.id, int, key"
    assert current.columns["mail",] == (
        "shop.dbo.items.email, nvarchar(100); published with hash, rename: mail"
    )
    published = contract.published
    assert current.columns.keys() >= {(name,) for name, _ in change.current_columns(published)}
    history = comments("history", contract, "shop", "people", "ces").columns
    assert history.keys() == {(name,) for name, _ in change.history_columns(published)}
    changes = comments("changes", contract, "shop", "people", "ces").columns
    assert (
        {path[0] for path in changes}
        == {name for name, _ in change.ledger_columns(published)}
        == set(LEDGER_COMMENTS)
    )
    assert changes["after", "mail"] == changes["before", "mail"] == current.columns["mail",]
    assert changes["key", "id"] == changes["previous_key", "id"] == current.columns["id",]
    assert set(ROW_COMMENTS) < {path[0] for path in history}
