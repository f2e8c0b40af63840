"""A table is not written into the lake's tables of another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from changeledger.control import ControlStore
from changeledger.model.contract import Column, Contract
from changeledger.model.errors import ConfigError
from changeledger.stages.common.publishing import require_names
from tests.feeds import feed_of
from tests.released import release


@pytest.fixture
def control(tmp_path: Path) -> ControlStore:
    control = ControlStore(f"sqlite:///{tmp_path}/control.db")
    columns = (Column(name="id", type="int", ordinal=1, key_position=1),)
    release(control, "named", [Contract(table="dbo.Order Lines", columns=columns)])
    return control


@pytest.mark.parametrize(
    ("table", "place"),
    [
        # Other case: contract, `publish:` rules and position would be looked up by the other name.
        ("dbo.order lines", "dbo_order_lines"),
        # Another table with the same name in the lake.
        ("dbo.Order_Lines", "dbo_order_lines"),
        ("dbo.order_lines_history", "dbo_order_lines_history"),
    ],
)
def test_a_name_that_another_table_has_in_the_lake(control: ControlStore, table: str, place: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"lake\.named\.{place}, which has the rows of dbo\.Order Lines"
    ) as raised:
        require_names(control, feed_of("named", "dbo.customers", table))
    assert "write it as dbo.Order Lines" in raised.value.remedy


@pytest.mark.parametrize(
    "tables", [("dbo.Order Lines",), ("dbo.customers",), ("dbo.Order Lines", "dbo.lines")]
)
def test_names_of_their_own(control: ControlStore, tables: tuple[str, ...]) -> None:
    require_names(control, feed_of("named", *tables))


def test_a_table_that_was_published_by_both_names_goes_on(control: ControlStore) -> None:
    """An earlier version did not refuse it."""
    columns = (Column(name="id", type="int", ordinal=1, key_position=1),)
    release(control, "other", [Contract(table=name, columns=columns) for name in ("dbo.A", "dbo.a")])
    require_names(control, feed_of("other", "dbo.a"))
