"""Users' expectations have a suite for each table, whose name is that of a folder and, twice, of a file."""

from __future__ import annotations

from changeledger.audit.user_expectations import suite_name

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
