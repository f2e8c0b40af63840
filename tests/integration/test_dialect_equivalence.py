"""One log, written in five dialects and carried through all stages: each feed publishes the log's truth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, pairwise
from typing import Any, NamedTuple

import pytest
from pyspark.sql import Row, SparkSession

from changeledger.config.database import FRESH, Database
from changeledger.config.feed import Feed
from changeledger.lake import catalog
from changeledger.stages import compare, extract, verify
from sourcelab import base_tables, ces, debezium, qlik_messages, qlik_tables, sqlserver_cdc
from sourcelab.log import Change, Interval, Log, Transaction, simulate
from sourcelab.messages import Message, produce
from sourcelab.services import KafkaBroker, Postgres
from sourcelab.tables import TABLES as SOURCE_TABLES
from sourcelab.tables import Table
from tests.integration.line import (
    KEYS,
    TABLES,
    cdc_feed,
    current,
    debezium_feed,
    lake_name,
    message_feed,
    plain,
    qlik_tables_feed,
    rows,
    run,
    window,
    without_spark,
)

pytestmark = pytest.mark.integration


class Differences(NamedTuple):
    """What a dialect may legitimately write differently from the log."""

    # Columns whose cell may be unknown in a before image, or in an after image.
    before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    # The image of a delete holds only its key.
    key_only_deletes: bool = False
    # An update of a key is written as a delete and an insert.
    parts_key_updates: bool = False


# An xml is a large value, too.
LARGE = frozenset({"notes", "document"})
# Qlik's change tables are in PostgreSQL here, where bytes and texts have no length: they count as large.
ENDLESS = {"digest", "opens_at", "changed_at"}
ANY_LENGTH = frozenset(
    c.name
    for table in SOURCE_TABLES
    for c in table.columns
    if c.base in {"char", "varchar", "nvarchar", "varbinary", "xml"} and c.name not in table.key
)
LEGITIMATE = {
    # SQL Server's capture, and the connector on top of it, do not write a large value that did not change.
    "sqlserver_cdc": Differences(LARGE, LARGE),
    # Texts and bytes have no stated length: a NULL may stand for a large value, an empty one for a NULL.
    "debezium": Differences(ANY_LENGTH, ANY_LENGTH),
    # Old large values are not sent.
    "ces": Differences(LARGE, parts_key_updates=True),
    "qlik_messages": Differences(LARGE, key_only_deletes=True),
    "qlik_tables": Differences(LARGE | ENDLESS, LARGE | ENDLESS, key_only_deletes=True),
}


def test_five_dialects_have_one_truth(
    spark: SparkSession, kafka: KafkaBroker, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two feeds take two overlapping windows, Debezium's with a snapshot in the first.

    The other feeds do so in test_quiet_tables, test_avro and test_rows_twice.
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
            if first > 0 or feed.feed in {"cdc", "debezium"}:
                run(spark, feed, over)
    for feed in feeds:
        idle = window(start=over.end)
        assert extract.run(without_spark, feed, idle) is False, "an idle window starts no Spark"
    _verify(spark, feeds, log)
    for feed in feeds:
        for table in _tables(feed, log):
            _check(spark, feed, log, table)
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


def _check(spark: SparkSession, feed: Feed, log: Log, table: Table) -> None:
    where = f"{feed.feed} {table.full_name}"
    may = LEGITIMATE[feed.dialect]
    assert current(spark, feed, table) == log.final_rows(table), where
    assert _history(spark, feed, table) == _lasting(log, table), where
    ledger = sorted(
        rows(spark, lake_name(feed, table.full_name, "_changes")), key=lambda row: row["sort_key"]
    )
    reported = _by_place(_reported(row) for row in ledger)
    wanted = _by_place(_wanted(log, table, may))
    assert {p: len(changes) for p, changes in reported.items()} == {p: len(c) for p, c in wanted.items()}, (
        where
    )
    loaded = log.transactions[0].commit_lsn if feed.dialect == "debezium" else None
    for place, changes in wanted.items():
        for change, expected in zip(reported[place], changes, strict=True):
            _same(change, expected, table, may, f"{where} {place}", loaded)


def _history(spark: SparkSession, feed: Feed, table: Table) -> list[Any]:
    """Returns the intervals that last. A deleted one has no cells, since the delete may lack some."""
    intervals = [row for row in rows(spark, lake_name(feed, table.full_name, "_history")) if _lasts(row)]
    return _in_order(
        (
            repr(tuple(row[name] for name in table.key)),
            row["_valid_from"],
            row["_valid_to"],
            row["_is_deleted"],
            None if row["_is_deleted"] else [plain(row[n]) for n in table.names],
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


class Canonical(NamedTuple):
    """A change, as the log has it or as a feed writes it."""

    operation: str
    commit_lsn: bytes
    change_lsn: bytes | None
    committed_at: Any
    key: tuple[Any, ...]
    previous_key: tuple[Any, ...] | None
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    changed: frozenset[str] | None
    gaps: Mapping[str, frozenset[str]]


def _by_place(changes: Iterable[Canonical]) -> dict[tuple[Any, ...], list[Canonical]]:
    """Groups changes by the position members that every dialect writes, in their order."""
    places: dict[tuple[Any, ...], list[Canonical]] = {}
    for change in changes:
        operation = "insert" if change.operation == "snapshot" else change.operation
        place = (operation, change.commit_lsn, change.key, change.previous_key)
        places.setdefault(place, []).append(change)
    return places


def _reported(row: Row) -> Canonical:
    def image(side: str) -> Mapping[str, Any] | None:
        return None if row[side] is None else {n: plain(v) for n, v in row[side].asDict().items()}

    return Canonical(
        row["operation"],
        bytes(row["commit_lsn"]),
        None if row["change_lsn"] is None else bytes(row["change_lsn"]),
        row["committed_at"],
        tuple(plain(v) for v in row["key"]),
        None if row["previous_key"] is None else tuple(plain(v) for v in row["previous_key"]),
        image("before"),
        image("after"),
        None if row["changed"] is None else frozenset(row["changed"]),
        {side: frozenset(row[f"{side}_unknown_columns"] or {}) for side in ("before", "after")},
    )


def _wanted(log: Log, table: Table, may: Differences) -> Iterator[Canonical]:
    for transaction in log.transactions:
        for change in transaction.changes:
            if change.table is not table:
                continue
            if change.operation == "key_update" and may.parts_key_updates:
                yield _canonical(transaction, change, "delete", before=change.before)
                yield _canonical(transaction, change, "insert", after=change.after)
            else:
                operation = "update" if change.operation == "key_update" else change.operation
                yield _canonical(transaction, change, operation, change.before, change.after)


def _canonical(
    transaction: Transaction,
    change: Change,
    operation: str,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> Canonical:
    table, both = change.table, before is not None and after is not None
    row = dict(after or before or {})
    old = table.key_of(dict(before)) if before is not None else None
    return Canonical(
        operation,
        transaction.commit_lsn,
        change.change_lsn,
        transaction.commit_time.replace(tzinfo=None),
        table.key_of(row),
        old if both and old != table.key_of(row) else None,
        before,
        after,
        frozenset(change.changed) if operation == "update" else None,
        {},
    )


def _same(
    reported: Canonical, wanted: Canonical, table: Table, may: Differences, where: str, loaded: bytes | None
) -> None:
    is_loaded = reported.commit_lsn == loaded
    if reported.change_lsn is not None:
        assert reported.change_lsn == wanted.change_lsn, where
    assert reported.committed_at == wanted.committed_at, where
    assert (reported.operation == "snapshot") == is_loaded, where
    if wanted.changed is not None:
        # A mask may name a column whose old value is unknown.
        unknown = reported.gaps["before"] | reported.gaps["after"]
        if reported.changed is None:
            # No known value differs, so only columns with an unknown old or new value may have changed.
            assert reported.gaps["before"], where
            assert wanted.changed <= unknown, where
        else:
            assert wanted.changed - unknown <= reported.changed <= wanted.changed, where
    beside_the_key = frozenset(table.names) - set(table.key)
    key_only = may.key_only_deletes and reported.operation == "delete"
    for side, unknown in (("before", beside_the_key if key_only else may.before), ("after", may.after)):
        image, wanted_image = getattr(reported, side), getattr(wanted, side)
        assert (image is None) == (wanted_image is None), (where, side)
        assert reported.gaps[side] <= unknown, (where, side)
        if image is not None:
            known = {n: v for n, v in image.items() if n not in reported.gaps[side]}
            assert known == {n: wanted_image[n] for n in known}, (where, side)
