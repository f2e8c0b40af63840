"""Which feeds `verify` takes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from changeledger.config.database import Database
from changeledger.config.feed import Feed
from changeledger.control import ReleaseRow
from changeledger.model.contract import Column, Contract
from changeledger.model.errors import ConfigError
from changeledger.stages import verify

NO_SPARK: Any = None


@pytest.mark.parametrize("only", ["", "shop_cdc"])
def test_a_database_without_feeds(only: str) -> None:
    with pytest.raises(ConfigError) as error:
        verify.run(NO_SPARK, Database(database="shop"), {}, only=only)
    assert error.value.message == "the database 'shop' has no feed"
    assert error.value.remedy == "write `database: shop` in the file of a feed"


def test_one_table_is_read_once_however_feeds_write_its_name() -> None:
    """Two readings at once would be of one table in the lake, each in the columns of its feed."""

    def of_feed(name: str, table: str, columns: str) -> Any:
        feed = Feed.model_validate(
            {
                "feed": name,
                "dialect": "ces",
                "database": "shop",
                "connection": "c",
                "source": {"topics": ["t"]},
                "tables": [{"table": table}],
            }
        )
        described = [
            Column(name=c, type="int", ordinal=at, key_position=int(c == "id"))
            for at, c in enumerate(columns.split(), 1)
        ]
        release = ReleaseRow(feed=name, id=1, window_id="w", created_at=datetime(2026, 8, 7, tzinfo=UTC))
        return verify._Table(feed, table, Contract(table=table, columns=tuple(described)), release, None)

    tables = [of_feed("one", "dbo.Orders", "id a"), of_feed("other", "dbo.orders", "id b")]
    (read,) = verify._contracts(tables).items()
    assert (read[0], read[1].table, read[1].names) == ("dbo.orders", "dbo.Orders", ("id", "a", "b"))
