"""Effects of publishing rules, and rules that contradict each other or their table."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import ValidationError

from changeledger.config.tables import TableConfig
from changeledger.model.contract import Contract
from changeledger.model.errors import ContractError
from changeledger.model.publishing import PublishRule
from tests.model.test_contract import contract

PEOPLE = contract(("id", "int"), ("email", "nvarchar(100)"), ("note", "nvarchar(max)"), ("weight", "real"))


def published(**rules: Any) -> Contract:
    parsed = {name: PublishRule.model_validate(rule) for name, rule in rules.items()}
    return PEOPLE.published_by(parsed, "key")


def test_a_contract_as_it_is_published() -> None:
    contract = published(Email={"hash": True, "rename": "person"}, note="drop", id={"cast": "bigint"})
    assert [(c.name, c.type, c.ordinal, c.key_position) for c in contract.published.columns] == [
        ("id", "bigint", 1, 1),
        ("person", "varchar(64)", 2, 0),
        ("weight", "real", 4, 0),
    ]
    assert contract.dropped == ("note",)
    assert [c.hash_key for c in contract.columns] == [None, "key", None, None]
    assert contract.unpublished == PEOPLE
    # As the control store keeps it.
    assert Contract.model_validate(contract.model_dump(mode="json")) == contract
    assert PEOPLE.model_dump() == PEOPLE.published.model_dump(), "stored contracts stay as they were"


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"emial": "drop"}, "names a column that the table does not have: emial, did you mean email?"),
        ({"ID": "drop"}, "dbo.items.id is a key column and cannot be left out"),
        ({"weight": "hash"}, "dbo.items.weight: real cannot be hashed"),
        ({"email": {"cast": "bigint"}}, r"dbo.items.email: nvarchar\(100\) cannot be cast to bigint"),
        ({"email": {"cast": "string"}}, "cannot be cast to string: that is the same"),
        ({"id": {"cast": "decimal(9,0)"}}, r"int cannot be cast to decimal\(9,0\)"),
    ],
)
def test_what_a_table_cannot_have(rules: dict[str, Any], said: str) -> None:
    with pytest.raises(ContractError, match=said):
        published(**rules)


@pytest.mark.parametrize(
    ("narrow", "wide", "cast"),
    [("int", "bigint", "bigint"), ("decimal(9,2)", "decimal(12,2)", "decimal(12,2)")],
)
def test_a_column_that_is_widened_up_to_its_cast(narrow: str, wide: str, cast: str) -> None:
    """A rule cannot be withdrawn, so refusing the widened column would stop the feed."""
    rules = {"total": PublishRule.model_validate({"cast": cast})}
    before, after = (contract(("id", "int"), ("total", kind)) for kind in (narrow, wide))
    widened = before.published_by(rules, None).evolved_to(after).published_by(rules, None)
    assert [column.type for column in widened.published.columns] == ["int", cast]


def test_a_rule_may_await_its_column() -> None:
    rule = {"drop": True, "expected": True}
    assert published(phone=rule).published == PEOPLE
    arrived = PEOPLE.evolved_to(
        contract(*[(c.name, c.type) for c in PEOPLE.columns], ("phone", "nvarchar(20)"))
    )
    rules = {"phone": PublishRule.model_validate(rule)}
    assert arrived.published_by(rules, None).published.names == PEOPLE.names


def test_two_columns_of_one_published_name() -> None:
    with pytest.raises(ContractError, match="'note' that occurs twice"):
        published(email={"rename": "note"}).published.checked()


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"email": "hsah"}, "'hsah' is not one of drop, hash, did you mean `hash`?"),
        ({"email": {"hsah": True}}, "email.hsah: unknown setting, did you mean `hash`?"),
        ({"email": {}}, "says nothing"),
        ({"email": {"drop": True, "rename": "mail"}}, "`drop` contradicts `rename`"),
        ({"email": {"drop": True, "hash": True}}, "`drop` contradicts `hash`"),
        ({"email": {"hash": True, "cast": "string"}}, "`hash` contradicts `cast`"),
        ({"email": {"cast": "text"}}, r"'text' is not one of string, bigint, timestamp, decimal\(p,s\)"),
        ({"email": {"cast": "strng"}}, "did you mean `string`?"),
        ({"email": {"rename": "_operation"}}, "'_operation' cannot be the name of a published column"),
        ({"email": "drop", "EMAIL": "hash"}, "two rules for email, EMAIL"),
        ({"email": {"rename": "a"}, "note": {"rename": "A"}}, "two columns are renamed to a"),
    ],
)
def test_what_the_yaml_cannot_say(columns: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TableConfig.model_validate({"table": "dbo.items", "publish": {"columns": columns}})
    text = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in caught.value.errors())
    assert re.search(said, text), text
