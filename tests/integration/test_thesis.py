"""One log, told in two dialects: equal canonical changes, and current and history equal to the truth."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from changeledger.config import Feed
from sourcelab import debezium, sqlserver_cdc
from sourcelab.log import Interval, Log, simulate
from sourcelab.messages import produce
from sourcelab.services import KafkaBroker, Postgres
from sourcelab.tables import Table
from tests.integration.line import cdc_feed, debezium_feed, lake_name, plain, rows, run, window

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with KafkaBroker(Path(".jars/kafka").absolute(), tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


# Schemas and a snapshot are the connector's settings: the truth is the same with and without.
@pytest.mark.parametrize(("seed", "snapshot"), [(1, False), (2, True), (3, False)])
def test_two_dialects_tell_one_truth(
    seed: int,
    snapshot: bool,
    spark: SparkSession,
    kafka: KafkaBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = simulate(seed, 40)
    half, prefix = 20, f"shop{seed}"
    with Postgres(tmp_path) as postgres:
        feeds = [
            cdc_feed(f"cdc{seed}", postgres, monkeypatch),
            debezium_feed(f"debezium{seed}", kafka, prefix, monkeypatch),
        ]
        for first, last in ((0, half), (half, len(log.transactions))):
            if first == 0:
                sqlserver_cdc.load(postgres.url, log, to_tx=last)
            else:
                sqlserver_cdc.append(postgres.url, log, first, last)
            told = debezium.messages(
                log, schemas=True, snapshot=snapshot, prefix=prefix, from_tx=first, to_tx=last
            )
            produce(kafka.bootstrap, told)
            # Windows that overlap: the second one reads the first one's records again.
            over = window()
            for feed in feeds:
                run(spark, feed, over)
    for table in log.tables:
        for feed in feeds:
            assert _current(spark, feed, table) == log.final_rows(table), (feed.feed, table.full_name)
            told_history = _history(spark, feed, table)
            assert told_history == _lasting(log, table), table.full_name
        _same_changes(spark, feeds, table, log.transactions[0].commit_lsn if snapshot else None)


def _current(spark: SparkSession, feed: Feed, table: Table) -> dict[Any, Any]:
    found = rows(spark, lake_name(feed, table.full_name))
    return {_key(row, table): {n: plain(row[n]) for n in table.names} for row in found}


def _key(row: Row, table: Table) -> tuple[Any, ...]:
    return tuple(row[name] for name in table.key)


def _history(spark: SparkSession, feed: Feed, table: Table) -> list[Any]:
    """Intervals that last; a deleted one without its cells, which a gap of the delete may leave out."""
    found = [row for row in rows(spark, lake_name(feed, table.full_name, "_history")) if _lasts(row)]
    return _in_order(
        (
            repr(_key(row, table)),
            row["_valid_from"],
            row["_valid_to"],
            row["_is_deleted"],
            None if row["_is_deleted"] else [plain(row[n]) for n in table.names],
        )
        for row in found
    )


def _in_order(intervals: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(intervals, key=lambda one: one[:2])


def _lasts(row: Row) -> bool:
    return bool(row["_valid_from"] != row["_valid_to"])


def _lasting(log: Log, table: Table) -> list[Any]:
    def told(one: Interval) -> tuple[Any, ...]:
        values = None if one.deleted else [one.row[n] for n in table.names]
        end = None if one.valid_to is None else one.valid_to.replace(tzinfo=None)
        return repr(one.key), one.valid_from.replace(tzinfo=None), end, one.deleted, values

    return _in_order(told(one) for one in log.history(table) if one.valid_from != one.valid_to)


def _same_changes(spark: SparkSession, feeds: list[Feed], table: Table, snapshot: bytes | None) -> None:
    ledgers = [rows(spark, lake_name(feed, table.full_name, "_changes")) for feed in feeds]
    told = [{_identity(row, snapshot): row for row in ledger} for ledger in ledgers]
    assert [len(t) for t in told] == [len(ledger) for ledger in ledgers], "a change is told twice"
    assert told[0].keys() == told[1].keys()
    for identity, one in told[0].items():
        other = told[1][identity]
        assert (one["key"], one["previous_key"]) == (other["key"], other["previous_key"])
        assert one["committed_at"] == other["committed_at"]
        if one["operation"] == other["operation"] == "update":
            assert one["changed"] == other["changed"], identity
        for side in ("before", "after"):
            _same_image(one, other, side)


def _identity(row: Row, snapshot: bytes | None) -> tuple[Any, ...]:
    """Operation, LSNs and key; at the snapshot's position a row stands for the insert that it shows."""
    commit = bytes(row["commit_lsn"])
    if commit == snapshot:
        return "insert", commit, None, repr(row["key"])
    return row["operation"], commit, bytes(row["change_lsn"]), repr(row["key"])


def _same_image(one: Row, other: Row, side: str) -> None:
    """Equal where both know the cell: large values are the legitimate difference of the two."""
    left, right = one[side], other[side]
    assert (left is None) == (right is None)
    if left is None:
        return
    unknown = {**(one[f"{side}_gaps"] or {}), **(other[f"{side}_gaps"] or {})}
    assert set(unknown) <= {"notes"}, "only the nvarchar(max) column may be unavailable"
    for name in left.asDict():
        if name not in unknown:
            assert left[name] == right[name], (side, name)
