"""A feed's publish rules compared with what is published: mixing two rules is refused."""

from __future__ import annotations

from typing import Any

import pytest

from changeledger.config.feed import Feed
from changeledger.kernels.publishing import key_id
from changeledger.model.errors import ConfigError, ContractError
from changeledger.stages.common.publishing import as_stated, require_as_published
from tests.feeds import feed_of
from tests.model.test_publishing import PEOPLE

SECRET = "sixteen or more of them"


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHANGELEDGER_HASH_KEY", SECRET)


def feed(**columns: Any) -> Feed:
    return feed_of("people", {"table": "dbo.items", "publish": {"columns": columns}})


def test_the_contract_has_the_rules_and_which_key_hashes() -> None:
    stated = as_stated(feed(email="hash"), PEOPLE)
    assert [c.hash_key for c in stated.columns] == [None, key_id(SECRET), None, None]
    require_as_published(feed(email="hash"), stated)
    # A rule for a column that does not exist yet changes nothing.
    require_as_published(feed(email="hash", phone="drop"), stated)
    with pytest.raises(ContractError, match="does not have: phone"):
        as_stated(feed(email="hash", phone="drop"), PEOPLE)


@pytest.mark.parametrize("key", ["", "too short"])
def test_hashes_need_a_secret(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("CHANGELEDGER_HASH_KEY", key)
    as_stated(feed(email="drop"), PEOPLE)
    with pytest.raises(ConfigError, match=r"CHANGELEDGER_HASH_KEY is (not set|shorter than 16)"):
        as_stated(feed(email="hash"), PEOPLE)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({}, "email was published with `hash`, but is now to be published as it is"),
        (
            {"email": "hash", "note": "drop"},
            "note was published as it is, but is now to be published with `drop`",
        ),
        ({"email": {"hash": True, "rename": "mail"}}, "is now to be published with `hash, rename: mail`"),
    ],
)
def test_a_change_is_refused(columns: dict[str, Any], said: str) -> None:
    published = as_stated(feed(email="hash"), PEOPLE)
    with pytest.raises(ConfigError, match=said) as caught:
        require_as_published(feed(**columns), published)
    assert "give the feed a new name" in caught.value.remedy


def test_another_secret_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    published = as_stated(feed(email="hash"), PEOPLE)
    monkeypatch.setenv("CHANGELEDGER_HASH_KEY", SECRET + " and another")
    with pytest.raises(ConfigError, match="CHANGELEDGER_HASH_KEY is not the key") as caught:
        require_as_published(feed(email="hash"), published)
    assert SECRET not in str(caught.value)
