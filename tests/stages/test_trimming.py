"""Maintenance removes what newer comparisons and proofs replaced, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from changeledger.compare import findings
from changeledger.control import ComparisonRow, ControlStore, ProofRow
from changeledger.kernels.arrow import table_schema
from changeledger.lake import catalog, iceberg, new_tables, refs, upkeep
from changeledger.lake.refs import release_tag
from changeledger.model import change
from changeledger.model.table_names import DRIFT, FINDINGS, NAMESPACE, REPAIRS
from changeledger.stages.maintain import trim_results
from changeledger.stages.maintenance.raw_rows import trim_raw
from changeledger.verify import drift
from sourcelab.tables import ORDERS
from tests.feeds import feed_of
from tests.stored_rows import append_rows, message

NOW = datetime(2026, 6, 1, tzinfo=UTC)
FEED = feed_of("trimmed", ORDERS.full_name)


def compared(name: str, feed: str, days: int) -> ComparisonRow:
    return ComparisonRow(
        id=name, database=FEED.database, table="sales.orders", reference="a", feed=feed, outcome="agree",
        from_lsn=f"{days:020X}", to_lsn=f"{days:020X}",
        counts={}, columns={}, spans=[], at=NOW - timedelta(days=days),
    )  # fmt: skip


def proved(name: str, feed: str, days: int) -> ProofRow:
    at = NOW - timedelta(days=days)
    return ProofRow(
        id=name, against="source", snapshot_id="s", database=FEED.database, table="sales.orders", feed=feed,
        release=1, outcome="drift", since=at, until=at, counts={}, at=at,
    )  # fmt: skip


def test_the_last_results_stay(spark: SparkSession, tmp_path: Path) -> None:
    control = ControlStore(f"sqlite:///{tmp_path}/control.db")
    catalog.create_namespace(NAMESPACE)
    places = (
        (FINDINGS, "comparison_id", findings.FINDING_COLUMNS),
        (DRIFT, "proof_id", drift.DRIFT_COLUMNS),
        (REPAIRS, "proof_id", drift.REPAIR_COLUMNS),
    )
    names = {"first": 90, "second": 60, "last": 40}
    results = [f"{feed}.{name}" for feed in (FEED.feed, "another") for name in names]
    for result in results:
        feed, name = result.split(".")
        control.comparisons.save(compared(result, feed, names[name]))
        control.proofs.save(proved(result, feed, names[name]))
    for table, column, columns in places:
        schema = to_arrow_schema(iceberg.schema_of(columns))
        new_tables.create(table, schema, {column: "identity"})
        catalog.load(table).append(pa.Table.from_pylist([{column: result} for result in results], schema))

    trim_results(spark, FEED, control, NOW - timedelta(days=50))

    kept = {f"{FEED.feed}.last", *(f"another.{name}" for name in names)}
    assert {row.id for row in control.comparisons.of_database(FEED.database)} == kept
    assert {row.id for row in control.proofs.of_database(FEED.database)} == kept
    for table, column, _ in places:
        stored = {row[column] for row in spark.table(table).collect()}
        assert stored & {*results} == kept, table

    trim_results(spark, FEED, control, NOW)
    assert {row.id for row in control.proofs.of_database(FEED.database)} == kept, "the last ones, however old"


@pytest.mark.long
def test_raw_rows_of_records_in_quarantine_stay(spark: SparkSession) -> None:
    """Raw rows of records that are or may come back in quarantine stay.

    - 5: its topic was created again; the row of the run that has it in quarantine stays, and the row read
      first.
    - 6: was replayed in vain; quarantine names the replay's run, so the row read first stays.
    - 8: was replayed after a release; a rollback puts it into quarantine again.
    - 9: was replayed, and no rollback can go back before that.
    - 10: has waited longer than raw records are kept; it is quarantined once it has waited too long.
    """
    feed = feed_of("trimmed_raw", ORDERS.full_name)
    catalog.create_namespace(feed.feed)
    new_tables.create(feed.lake.raw, table_schema(change.RAW_MESSAGE_COLUMNS), change.RAW_PARTITIONS)
    new_tables.create(feed.lake.quarantine, table_schema(change.QUARANTINE_COLUMNS))
    new_tables.create(feed.lake.pending, table_schema(change.PENDING_COLUMNS))
    for table, columns, records in (
        (
            feed.lake.raw,
            change.RAW_MESSAGE_COLUMNS,
            [("a", 5), ("b", 5), ("a", 6), ("b", 6), *(("a", n) for n in (7, 8, 9, 10))],
        ),
        (feed.lake.quarantine, change.QUARANTINE_COLUMNS, [("a", 9)]),
        (feed.lake.quarantine, change.QUARANTINE_COLUMNS, [("a", 8)]),
        (feed.lake.quarantine, change.QUARANTINE_COLUMNS, [("b", 5), ("a replay", 6)]),
        (feed.lake.pending, change.PENDING_COLUMNS, [("b", 10)]),
    ):
        append_rows(table, columns, [message(*each) for each in records])
        if records == [("a", 8)]:
            upkeep.delete_where(spark, table, "source_position.`offset` = 9")
            released = refs.snapshot_of(table)
            assert released is not None
            refs.set_tag(table, release_tag(1), released)
    upkeep.delete_where(spark, feed.lake.quarantine, "source_position.`offset` = 8")
    trim_raw(spark, feed, ["a", "b"])
    rows = {(row["window_id"], row["offset"]) for row in spark.table(feed.lake.raw).collect()}
    assert rows == {("a", 5), ("b", 5), ("a", 6), ("a", 8), ("a", 10)}
