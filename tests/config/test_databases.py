"""A database's YAML states which feeds are compared, and the connection through which the source is read."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from changeledger.config.database import Database, named_database, readable_databases
from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.model.errors import ConfigError


def feed(name: str, dialect: str = "ces", database: str = "shop", **settings: Any) -> Feed:
    source = {"cdc_schema": "capture"} if dialect == "sqlserver_cdc" else {"topics": ["t"]}
    reported = {"feed": name, "dialect": dialect, "database": database, "connection": f"{name}_connection"}
    return Feed.model_validate({**reported, "source": source, "tables": [{"table": "dbo.t"}], **settings})


def feeds(*reported: Feed) -> dict[str, Feed]:
    return {reader.feed: reader for reader in reported}


def test_the_source_is_read_as_the_feed_of_its_own_capture_reads_it() -> None:
    reported = feeds(feed("other", "sqlserver_cdc", "billing"), feed("stream"), feed("own", "sqlserver_cdc"))
    source, chosen = Database(database="shop").verified(reported)
    assert source is not None
    assert (source.connection, source.cdc_schema) == ("own_connection", "capture")
    assert source.grace_period == timedelta(minutes=15)
    assert [reader.feed for reader in chosen] == ["stream", "own"]


def test_a_connection_that_is_named_goes_before(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(
        "database: shop\nverify: {connection: replica, lag: PT1M, grace_period: PT1H}"
    )
    reported = feeds(feed("own", "sqlserver_cdc"))
    source = readable_databases(tmp_path, reported)[0]["shop"].source(reported)
    assert source is not None
    # The connection may lead to a copy without a capture, so LSNs are read only if its schema is named, too.
    assert (source.connection, source.cdc_schema) == ("replica", None)
    assert (source.lag, source.grace_period) == (timedelta(minutes=1), timedelta(hours=1))


@pytest.mark.parametrize("verify", ["verify: null", "verify: {grace_period: PT1M}"])
def test_without_a_connection_no_source_is_read(tmp_path: Path, verify: str) -> None:
    (tmp_path / "shop.yaml").write_text(f"database: shop\n{verify}")
    reported = feeds(feed("stream", "sqlserver_cdc" if "null" in verify else "ces"))
    database = readable_databases(tmp_path, reported)[0]["shop"]
    assert database.source(reported) is None
    assert database.verified(reported) == (None, list(reported.values()))


def test_one_feed_can_be_verified_and_not_compared(tmp_path: Path) -> None:
    reported = feeds(feed("own", "sqlserver_cdc"))
    (database,) = readable_databases(tmp_path, reported)[0].values()
    assert not database.is_compared(reported)
    assert database.is_verified(reported)
    assert database.source(reported) is not None
    assert database.is_compared(feeds(feed("own", "sqlserver_cdc"), feed("stream")))


def test_the_reference_says_the_types_of_what_is_read() -> None:
    reported = feeds(feed("a"), feed("b", primary=True), feed("c", "sqlserver_cdc"))
    assert [reader.feed for reader in Database(database="shop").verified(reported)[1]] == ["b", "a", "c"]
    assert Database(database="shop", reference="c").verified(reported)[1][0].feed == "c"


def test_a_broken_file_is_of_its_own_database_alone(tmp_path: Path) -> None:
    """Defaults must not replace a broken file: they might compare and verify something unintended."""
    (tmp_path / "shop.yaml").write_text("database: shop\nverfy: null")
    (tmp_path / "stock.yaml").write_text("database: [")
    (tmp_path / "other.yaml").write_text("database: billing\nreference: bil")
    (tmp_path / "alone.yaml").write_text("database: alone")
    names = ("shop", "stock", "billing", "good")
    reported = feeds(*(feed(f"{name}_{number}", database=name) for name in names for number in (1, 2)))
    databases, errors = readable_databases(tmp_path, reported)
    assert list(databases) == ["alone", "good"]
    # Its feed's file may be the broken one, so nothing is left to read.
    assert not databases["alone"].is_verified(reported)
    assert {name: error.message.partition(str(tmp_path))[2] for name, error in errors.items()} == {
        "shop": "/shop.yaml is not valid: verfy: unknown setting, did you mean `verify`?",
        "stock": errors["stock"].message.partition(str(tmp_path))[2],
        "billing": "",
    }
    assert "stock.yaml cannot be read" in errors["stock"].message
    assert "has no feed 'bil'" in errors["billing"].message
    settings = Settings(databases=tmp_path)
    assert named_database(settings, reported, "good").database == "good"
    with pytest.raises(ConfigError, match="verfy"):
        named_database(settings, reported, "shop")
