"""Finds tables by what topics and messages call them; expected names are worked out by hand."""

from __future__ import annotations

import pytest

from changeledger.dialects.qlik_messages.known_names import KnownNames

NAMES = KnownNames(["dbo.items", "sales.items", "DBO.Items", "dbo.order.lines", "dbo.items", "x.s"])


@pytest.mark.parametrize(
    ("name", "with_schema", "tables"),
    [
        # Of two that differ in case only the very one; else the first one.
        ("qlik.dbo.items", True, ["dbo.items"]),
        ("qlik.DBO.Items", True, ["DBO.Items"]),
        ("qlik.dbo.ITEMS", True, ["dbo.items"]),
        ("dbo.items", True, ["dbo.items"]),
        # A name begins behind a dot.
        ("qlik.adbo.items", True, []),
        ("items", True, []),
        ("shop.dbo.order.lines", True, ["dbo.order.lines"]),
        ("shop.order.lines", False, ["dbo.order.lines"]),
        ("lines", False, []),
        ("shop.items", False, ["dbo.items", "sales.items"]),
        ("shop.Items", False, ["DBO.Items", "sales.items"]),
        ("orders", False, []),
        ("", False, []),
    ],
)
def test_tables_by_the_end_of_a_name(name: str, with_schema: bool, tables: list[str]) -> None:
    assert NAMES.ending(name, with_schema=with_schema) == tables


def test_names_are_the_same_in_any_case() -> None:
    assert NAMES.same("dbo.ITEMS") == ["dbo.items", "DBO.Items"]
    assert NAMES.same("items") == []
    assert ("dbo.items" in NAMES, "dbo.ITEMS" in NAMES, len(NAMES)) == (True, False, 5)


class Looked(str):
    """A name that counts how often it is looked at."""

    __slots__ = ()
    times = 0

    def lower(self) -> str:
        Looked.times += 1
        return super().lower()

    def __format__(self, spec: str) -> str:
        Looked.times += 1
        return super().__format__(spec)


def test_names_of_other_tables_are_not_looked_at() -> None:
    """A feed has hundreds of tables, and each version of each is remembered."""
    names = KnownNames(Looked(f"dbo.table_{number}") for number in range(2_000))
    Looked.times = 0
    assert names.ending("qlik.dbo.table_7") == ["dbo.table_7"]
    assert names.same("DBO.table_8") == ["dbo.table_8"]
    assert Looked.times < 10
