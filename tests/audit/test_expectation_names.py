"""Names of users' expectations and of their suites, which become folder names and, twice, file names."""

from __future__ import annotations

import pytest

from changeledger.audit.user_expectations import rules, suite_name
from changeledger.config.tables import TableConfig
from changeledger.model.errors import ConfigError

LONGEST_RULE = "a" * 63
TABLES = (
    "dbo.orders",
    "dbo.a/b",
    "dbo.a\\b",
    "dbo.a b",
    "dbo a.b",
    "dbo_a.b",
    "dbo.a_b",
    'dbo.say "hi"',
    "dbo.Straße",
    "dbo." + "o" * 128,
    "dbo." + "ü" * 128,
    "ö" * 127 + "e.t",
    "ö" * 127 + "f.t",
)


def test_every_table_has_a_name_of_its_own_that_a_folder_can_have() -> None:
    names = [suite_name(table, LONGEST_RULE) for table in TABLES]
    assert len(set(names)) == len(TABLES)
    for name in names:
        assert not set(name) & set("./\\")
        assert len(f"{name}-{name}.json".encode()) <= 255


def test_a_plain_name_stays_readable() -> None:
    assert suite_name("dbo.orders", "current all") == "dbo orders current all"


@pytest.mark.parametrize("name", ["order_strict", "conservation"])
def test_no_expectation_has_the_name_of_a_rule(name: str) -> None:
    """An expectation with a rule's name would be shown with the rule's remedy."""
    table = TableConfig.model_validate(
        {"table": "dbo.t", "expectations": [{"name": name, "sql": "SELECT * FROM current"}]}
    )
    with pytest.raises(ConfigError, match=f"{name} is already that of a rule"):
        rules(table, set())
