"""Which feeds `verify` takes, and when it judges."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from changeledger.config.database import Database
from changeledger.config.settings import Settings
from changeledger.control import ControlStore, ReleaseRow, SnapshotRow, WindowRow
from changeledger.lake import catalog, iceberg, new_tables
from changeledger.model.contract import Column, Contract
from changeledger.model.errors import ConfigError, LeaseHeld
from changeledger.model.table_names import NAMESPACE
from changeledger.stages import verify
from changeledger.stages.verification import proofs
from changeledger.stages.verification.snapshot import is_sent
from tests.feeds import feed_of

NO_SPARK: Any = None


@pytest.mark.parametrize("only", ["", "shop_cdc"])
def test_a_database_without_feeds(only: str) -> None:
    with pytest.raises(ConfigError) as error:
        verify.run(NO_SPARK, Database(database="shop"), {}, only=only)
    assert error.value.message == "the database 'shop' has no feed"
    assert error.value.remedy == "write `database: shop` in the file of a feed"


def test_one_table_is_read_once_however_feeds_write_its_name() -> None:
    """Two concurrent readings would write one table in the lake, each in the columns of its feed."""

    def of_feed(name: str, table: str, columns: str) -> Any:
        described = [
            Column(name=c, type="int", ordinal=at, key_position=int(c == "id"))
            for at, c in enumerate(columns.split(), 1)
        ]
        release = ReleaseRow(feed=name, id=1, window_id="w", created_at=datetime(2026, 8, 7, tzinfo=UTC))
        contract = Contract(table=table, columns=tuple(described))
        return verify._Table(feed_of(name, table), table, contract, release, None)

    tables = [of_feed("one", "dbo.Orders", "id a"), of_feed("other", "dbo.orders", "id b")]
    (read,) = verify._contracts(tables).items()
    assert (read[0], read[1].table, read[1].names) == ("dbo.orders", "dbo.Orders", ("id", "a", "b"))


def minute(number: int) -> datetime:
    return datetime(2026, 8, 7, 12, tzinfo=UTC) + timedelta(minutes=number)


@pytest.mark.parametrize(
    ("ahead", "read", "sent"),
    [
        # Clocks agree. The feed has read 16 minutes after the source was read, or 14.
        (0, 16, True),
        (0, 14, False),
        # Airflow's is 20 minutes ahead: a window seems to end 16 minutes after the reading, not 4 before it.
        (20, -4, False),
        (20, 16, True),
        # It is behind: windows end later than it is.
        (-20, 16, False),
        (-20, 36, True),
    ],
)
def test_a_difference_counts_once_the_feed_has_read_what_the_source_had(
    ahead: int, read: int, sent: bool
) -> None:
    """`read`: how long after the reading the feed has read; `ahead`: of the clock of Airflow and the jobs. By
    hand: the grace period is of 15 minutes."""
    snapshot = SnapshotRow(until=minute(0), at=minute(ahead))
    window = WindowRow(end=minute(read + ahead), opened_at=minute(read + ahead))
    assert is_sent(window, snapshot, timedelta(minutes=15)) is sent


def test_proofs_of_two_databases_do_not_widen_what_they_share_at_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one would add a column that is there, and end with Spark's error."""
    table, columns = f"lake.{NAMESPACE}.of_an_earlier_version", (("proof_id", "string"), ("later", "string"))
    first = pa.schema([("proof_id", pa.string())])
    new_tables.create(table, first)
    monkeypatch.setattr(proofs, "_OF_WRONG", ((table, first, columns),))
    control = ControlStore(Settings().control_url)
    other = ControlStore(Settings().control_url, process="another")
    other.leases.acquire(NAMESPACE, "another process", 60)
    try:
        with pytest.raises(LeaseHeld, match="another process works on what was found of rows of all feeds"):
            proofs._prepare(spark, control)
    finally:
        other.leases.release(NAMESPACE, "another process")
    proofs._prepare(spark, control)
    assert iceberg.has_columns(catalog.load(table), columns)
    # From then on nobody waits for anybody.
    other.leases.acquire(NAMESPACE, "another process", 60)
    proofs._prepare(spark, control)
    other.leases.release(NAMESPACE, "another process")
