"""What a database's YAML says: who is compared, and through which connection the source is read."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from changeledger.config import Feed
from changeledger.databases import Database, load_databases


def feed(name: str, dialect: str = "ces", database: str = "shop", **more: Any) -> Feed:
    source = {"cdc_schema": "capture"} if dialect == "sqlserver_cdc" else {"topics": ["t"]}
    told = {"feed": name, "dialect": dialect, "database": database, "connection": f"{name}_connection"}
    return Feed.model_validate({**told, "source": source, "tables": [{"table": "dbo.t"}], **more})


def feeds(*them: Feed) -> dict[str, Feed]:
    return {one.feed: one for one in them}


def test_the_source_is_read_as_the_feed_of_its_own_capture_reads_it() -> None:
    told = feeds(feed("other", "sqlserver_cdc", "billing"), feed("stream"), feed("own", "sqlserver_cdc"))
    source, chosen = Database(database="shop").verified(told)
    assert source is not None
    assert (source.connection, source.cdc_schema) == ("own_connection", "capture")
    assert source.settle == timedelta(minutes=15)
    assert [one.feed for one in chosen] == ["stream", "own"]


def test_a_connection_that_is_named_goes_before(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(
        "database: shop\nverify: {connection: replica, lag: PT1M, settle: PT1H}"
    )
    told = feeds(feed("own", "sqlserver_cdc"))
    source = load_databases(tmp_path, told)["shop"].source(told)
    assert source is not None
    # It may be a copy without a capture: LSNs are read only where a schema of them is named, too.
    assert (source.connection, source.cdc_schema) == ("replica", None)
    assert (source.lag, source.settle) == (timedelta(minutes=1), timedelta(hours=1))


@pytest.mark.parametrize("verify", ["verify: null", "verify: {settle: PT1M}"])
def test_without_a_connection_no_source_is_read(tmp_path: Path, verify: str) -> None:
    (tmp_path / "shop.yaml").write_text(f"database: shop\n{verify}")
    told = feeds(feed("stream", "sqlserver_cdc" if "null" in verify else "ces"))
    database = load_databases(tmp_path, told)["shop"]
    assert database.source(told) is None
    assert database.verified(told) == (None, list(told.values()))


def test_one_feed_can_be_verified_and_not_compared(tmp_path: Path) -> None:
    told = feeds(feed("own", "sqlserver_cdc"))
    (database,) = load_databases(tmp_path, told).values()
    assert not database.is_compared(told)
    assert database.source(told) is not None
    assert database.is_compared(feeds(feed("own", "sqlserver_cdc"), feed("stream")))


def test_the_reference_says_the_types_of_what_is_read() -> None:
    told = feeds(feed("a"), feed("b", primary=True), feed("c", "sqlserver_cdc"))
    assert [one.feed for one in Database(database="shop").verified(told)[1]] == ["b", "a", "c"]
    assert Database(database="shop", reference="c").verified(told)[1][0].feed == "c"
