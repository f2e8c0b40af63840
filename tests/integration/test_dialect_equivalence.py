"""One log, written in five dialects and carried through all stages: each feed publishes the log's truth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain, pairwise
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeledger.config.database import FRESH, Database
from changeledger.config.feed import Feed
from changeledger.lake import catalog
from changeledger.stages import compare, extract, verify
from sourcelab import base_tables, ces, debezium, qlik_messages, qlik_tables, sqlserver_cdc
from sourcelab.log import Interval, Log, simulate
from sourcelab.messages import Message, produce
from sourcelab.services import KafkaBroker, Postgres
from sourcelab.tables import Table
from tests.dialects.test_dialect_equivalence import ANY_LENGTH, LARGE, May, Wanted, wanted
from tests.integration.line import (
    KEYS,
    TABLES,
    cdc_feed,
    current_rows,
    debezium_feed,
    lake_name,
    message_feed,
    qlik_tables_feed,
    run,
    window,
    without_spark,
)
from tests.stored_rows import stored_rows

pytestmark = pytest.mark.integration

Row = dict[str, Any]

# Qlik's change tables are in PostgreSQL here, where bytes and texts have no length: they count as large.
ENDLESS = {"digest", "opens_at", "changed_at"}
# What a dialect may write differently from the log. SQL Server's capture and the connector on top of it join
# the halves of key updates, and do not write a large value that did not change.
WHOLE = May(LARGE, LARGE, parts_key_updates=False)
LEGITIMATE = {
    "sqlserver_cdc": WHOLE,
    # Texts and bytes have no stated length: a NULL may stand for a large value, an empty one for a NULL.
    "debezium": WHOLE._replace(before=ANY_LENGTH, after=ANY_LENGTH),
    # Old large values are not sent.
    "ces": May(LARGE),
    "qlik_messages": WHOLE._replace(after=frozenset(), key_only_deletes=True),
    "qlik_tables": WHOLE._replace(before=LARGE | ENDLESS, after=LARGE | ENDLESS, key_only_deletes=True),
}


def test_five_dialects_have_one_truth(
    spark: SparkSession, kafka: KafkaBroker, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debezium's feed takes two overlapping windows, with a snapshot in the first.

    The other feeds do so in faults/test_judged, test_quiet_tables, test_avro and test_rows_twice.
    """
    log = simulate(2, 40)
    cuts = (0, 20, len(log.transactions))
    # A table of a hundred columns takes most of the time: only one dialect writes it here, and all of them do
    # so in tests/dialects/test_dialect_equivalence.py.
    narrow = [{"table": table} for table in TABLES if table != "dbo.wide"]
    keyed = [{**reported, "key": KEYS[reported["table"]]} for reported in narrow]
    feeds = [
        cdc_feed("cdc", postgres, monkeypatch),
        qlik_tables_feed("qlik_tables", postgres, monkeypatch, tables=keyed),
        debezium_feed("debezium", kafka, "truth", monkeypatch, tables=narrow),
        message_feed("ces", "ces", kafka, ["ces"], monkeypatch, tables=narrow),
        message_feed("qlik", "qlik_messages", kafka, ["qlik.*"], monkeypatch, tables=narrow),
    ]
    for first, last in pairwise(cuts):
        if first == 0:
            base_tables.load(postgres.url, log, to_tx=last)
            sqlserver_cdc.load(postgres.url, log, to_tx=last)
            qlik_tables.load(postgres.url, log, to_tx=last)
        else:
            base_tables.append(postgres.url, log, first, last)
            sqlserver_cdc.append(postgres.url, log, first, last)
            qlik_tables.append(postgres.url, log, first, last)
        produce(kafka.bootstrap, _messages(log, first, last))
        over = window()
        for feed in feeds:
            if first > 0 or feed.feed == "debezium":
                run(spark, feed, over)
    for feed in feeds:
        idle = window(start=over.end)
        assert extract.run(without_spark, feed, idle) is False, "an idle window starts no Spark"
    _verify(spark, feeds, log)
    for feed in feeds:
        for table in _tables(feed, log):
            _check(feed, log, table)
        assert not catalog.exists(feed.lake.image_chain_breaks), "no change contradicts the one before it"
    _compare(spark, feeds, log)


def _tables(feed: Feed, log: Log) -> list[Table]:
    return [log.table(reported.table) for reported in feed.tables]


def _compare(spark: SparkSession, feeds: list[Feed], log: Log) -> None:
    """The comparison of ledgers finds that every feed agrees with SQL Server's own CDC tables."""
    compared = compare.run(spark, Database(database="shop", reference="cdc"), {f.feed: f for f in feeds})
    assert {(row.feed, row.table) for row in compared} == {
        (feed.feed, table.full_name) for feed in feeds[1:] for table in _tables(feed, log)
    }
    assert {row.outcome for row in compared} == {"agree"}
    assert all(row.counts["equal"] + row.counts["expected"] > 0 for row in compared)


def _verify(spark: SparkSession, feeds: list[Feed], log: Log) -> None:
    """Every feed equals the source tables, each in the types that its tool writes."""
    proved = verify.run(spark, Database(database="shop"), {f.feed: f for f in feeds}, FRESH)
    assert {(row.feed, row.table): row.outcome for row in proved if row.against == "source"} == {
        (feed.feed, table.full_name): "proven" for feed in feeds for table in _tables(feed, log)
    }
    for row in proved:
        reported = row.counts["rows"] - row.counts["equal"] - row.counts["in_flight"]
        assert (reported, row.counts["read_again"]) == (0, 0), row.id


def _messages(log: Log, first: int, last: int) -> Iterator[Message]:
    return chain(
        debezium.messages(log, schemas=True, snapshot=True, prefix="truth", from_tx=first, to_tx=last),
        ces.messages(log, split_at=8_000, topic="ces", from_tx=first, to_tx=last),
        qlik_messages.messages(log, envelope=True, snapshot=False, prefix="qlik", from_tx=first, to_tx=last),
    )


def _check(feed: Feed, log: Log, table: Table) -> None:
    where = f"{feed.feed} {table.full_name}"
    may = LEGITIMATE[feed.dialect]
    assert current_rows(feed, table) == log.final_rows(table), where
    assert _history(feed, table) == _lasting(log, table), where
    ledger = stored_rows(lake_name(feed, table.full_name, "_changes"))
    by_place: dict[Any, list[Row]] = {}
    for row in sorted(ledger, key=lambda row: row["sort_key"]):
        operation = "insert" if row["operation"] == "snapshot" else row["operation"]
        keys = (row[name] and tuple(row[name].values()) for name in ("key", "previous_key"))
        by_place.setdefault((operation, row["commit_lsn"], *keys), []).append(row)
    loaded = log.transactions[0].commit_lsn if feed.dialect == "debezium" else None
    for want in wanted(log, may):
        if want.change.table is table:
            place = (want.operation, want.transaction.commit_lsn, *_keys(want))
            assert by_place.get(place), (where, place)
            _same(by_place[place].pop(0), want, may, f"{where} {place}", loaded)
    assert not [row for of_place in by_place.values() for row in of_place], where


def _keys(want: Wanted) -> tuple[Any, Any]:
    """Returns the change's key, and the previous key if it changes the key."""
    old, new = (image and want.change.table.key_of(image) for image in (want.before, want.after))
    return new or old, old if new and old != new else None


def _history(feed: Feed, table: Table) -> list[Any]:
    """Returns the intervals that last. A deleted one has no cells, since the delete may lack some."""
    intervals = [row for row in stored_rows(lake_name(feed, table.full_name, "_history")) if _lasts(row)]
    return _in_order(
        (
            repr(table.key_of(row)),
            row["_valid_from"],
            row["_valid_to"],
            row["_is_deleted"],
            None if row["_is_deleted"] else [row[n] for n in table.names],
        )
        for row in intervals
    )


def _in_order(intervals: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(intervals, key=lambda interval: interval[:2])


def _lasts(row: Row) -> bool:
    return bool(row["_valid_from"] != row["_valid_to"])


def _lasting(log: Log, table: Table) -> list[Any]:
    def reported(interval: Interval) -> tuple[Any, ...]:
        values = None if interval.deleted else [interval.row[n] for n in table.names]
        end = None if interval.valid_to is None else interval.valid_to.replace(tzinfo=None)
        return repr(interval.key), interval.valid_from.replace(tzinfo=None), end, interval.deleted, values

    return _in_order(
        reported(interval) for interval in log.history(table) if interval.valid_from != interval.valid_to
    )


def _without_zone(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def _same(row: Row, want: Wanted, may: May, where: str, loaded: bytes | None) -> None:
    table, lacking = want.change.table, {}
    if row["change_lsn"] is not None:
        assert row["change_lsn"] == want.change.change_lsn, where
    assert row["committed_at"] == want.transaction.commit_time.replace(tzinfo=None), where
    assert (row["operation"] == "snapshot") == (want.transaction.commit_lsn == loaded), where
    beside_the_key = frozenset(table.names) - set(table.key)
    key_only = may.key_only_deletes and want.operation == "delete"
    for side, may_lack in (("before", beside_the_key if key_only else may.before), ("after", may.after)):
        image, wanted_image = row[side], getattr(want, side)
        lacking[side] = frozenset(row[f"{side}_unknown_columns"] or {})
        assert (image is None) == (wanted_image is None), (where, side)
        assert lacking[side] <= may_lack, (where, side)
        if image is not None:
            known = {n: _without_zone(v) for n, v in image.items() if n not in lacking[side]}
            assert known == {n: wanted_image[n] for n in known}, (where, side)
    if want.operation == "update":
        # A mask may name a column whose old value is unknown.
        unknown, changed = lacking["before"] | lacking["after"], frozenset(want.change.changed)
        if row["changed"] is None:
            # No known value differs, so only columns with an unknown old or new value may have changed.
            assert lacking["before"], where
            assert changed <= unknown, where
        else:
            assert changed - unknown <= frozenset(row["changed"]) <= changed, where
