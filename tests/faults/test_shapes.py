"""A source that changes its tables: what fits is widened, and what does not stops the run and is named."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.lake import catalog, refs
from changeledger.model.errors import AuditFailed, StageOrderError
from changeledger.model.window import Request, Window
from changeledger.stages import audit, extract, normalize, publish, reconcile
from sourcelab import ces, debezium
from sourcelab.log import Log, simulate
from sourcelab.messages import Message, produce
from sourcelab.services import KafkaBroker
from tests.integration.line import BEGIN, current_rows, lake_name, message_feed, run, window
from tests.stored_rows import stored_rows

pytestmark = pytest.mark.integration

TABLE = "sales.orders"
LOG = simulate(4, 16)


def reported(topic: str, first: int, last: int, without: str = "", **types: str) -> list[Message]:
    """Returns messages of one table without the column `without`, or with columns of other types."""

    def as_written(message: Message) -> Message:
        envelope: dict[str, Any] = json.loads(message.value or b"{}")
        data = json.loads(envelope["data"])
        source, row = data["eventsource"], data["eventrow"]
        source["cols"] = [
            {**column, "type": types.get(column["name"], column["type"])}
            for column in source["cols"]
            if column["name"] != without
        ]
        for side, image in row.items():
            cells = json.loads(image)
            row[side] = json.dumps({name: cell for name, cell in cells.items() if name != without})
        return message._replace(value=json.dumps({**envelope, "data": json.dumps(data)}).encode())

    streamed = ces.messages(LOG, topic=topic, from_tx=first, to_tx=last)
    return [as_written(m) for m in streamed if m.key == TABLE.encode()]


@pytest.mark.long
def test_a_type_that_grows_is_widened(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = message_feed("grows", "ces", kafka, ["grows"], monkeypatch, tables=[{"table": TABLE}])
    produce(kafka.bootstrap, reported("grows", 0, 8), partitions=1)
    run(spark, feed, window())
    produce(kafka.bootstrap, reported("grows", 8, 17, stock="bigint"), partitions=1)
    run(spark, feed, window())
    table = spark.table(lake_name(feed, TABLE))
    assert dict(table.dtypes)["stock"] == "bigint"
    stocks = {(row["region"], row["order_no"]): row["stock"] for row in table.collect()}
    expected = {key: row["stock"] for key, row in LOG.final_rows(LOG.table(TABLE)).items()}
    assert stocks == expected


@pytest.mark.long
def test_a_type_that_a_run_without_a_release_has_widened(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg cannot narrow a type again: the column stays wide, and later runs continue."""

    def of(total: str) -> Feed:
        tables = [{"table": TABLE, "columns": [{"name": "total", "type": total}]}]
        return message_feed("tries", "ces", kafka, ["tries"], monkeypatch, tables=tables)

    def total() -> str:
        return str(dict(spark.table(lake_name(feed, TABLE)).dtypes)["total"])

    feed = of("money")
    produce(kafka.bootstrap, reported("tries", 0, 8), partitions=1)
    run(spark, feed, window())
    assert total() == "decimal(19,4)"
    produce(kafka.bootstrap, reported("tries", 8, 17), partitions=1)
    tried = Window(start=BEGIN, end=datetime.now(UTC), request=Request(dry_run=True))
    run(spark, of("decimal(30,4)"), tried, (extract, normalize, reconcile, audit))
    run(spark, of("decimal(25,4)"), window())
    assert total() == "decimal(30,4)"
    published = {
        (row["region"], row["order_no"]): row["total"] for row in stored_rows(lake_name(feed, TABLE))
    }
    assert published == {key: row["total"] for key, row in LOG.final_rows(LOG.table(TABLE)).items()}


@pytest.mark.long
def test_a_column_that_is_added(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The column's values in rows written before are unknown, whether these were published by then or not."""
    contents = {}
    for name, cuts in (("adds", (8, 17)), ("adds_once", (17,))):
        feed = message_feed(name, "ces", kafka, [name], monkeypatch, tables=[{"table": TABLE}])
        for cut in cuts:
            late = reported(name, 8, 17) if cut == 17 else []
            early = reported(name, 0, 8, without="stock") if cut == cuts[0] else []
            produce(kafka.bootstrap, early + late, partitions=1)
            over = window()
            if late:
                # A failed try has added the column, and published rows are rewritten with it.
                run(spark, feed, over, (extract, normalize))
                write_again(spark, feed)
            run(spark, feed, over)
        # An update that finds a value where none was written breaks no chain.
        assert not catalog.exists(feed.lake.image_chain_breaks)
        contents[name] = {kind: _content(feed, kind) for kind in _KINDS}
    assert contents["adds"] == contents["adds_once"]
    table = LOG.table(TABLE)
    final, early_final = LOG.final_rows(table), Log(LOG.tables, LOG.transactions[:8]).final_rows(table)
    unsent = {key for key, row in final.items() if early_final.get(key) == row}
    current = stored_rows(lake_name(feed, TABLE))
    assert 0 < len(unsent) < len(current)
    for row in current:
        key = (row["region"], row["order_no"])
        if row["_unknown_columns"]:
            assert row["_unknown_columns"] == {"stock": "not_captured"}
            assert row["stock"] is None
            assert key in unsent
        else:
            assert row["stock"] == final[key]["stock"]


def write_again(spark: SparkSession, feed: Feed) -> None:
    """Rewrites the tables' files, like `erase` and compaction."""
    for kind in _KINDS:
        name = lake_name(feed, TABLE, kind)
        if refs.snapshot_of(name) is not None:
            options = "map('rewrite-all', 'true')"
            spark.sql(f"CALL lake.system.rewrite_data_files(table => '{name}', options => {options})")


def stating(
    kafka: KafkaBroker, patch: pytest.MonkeyPatch, name: str, topics: str, *added: dict[str, Any]
) -> Feed:
    """Returns a feed that states the table's columns, with the added ones."""
    table = LOG.table(TABLE)
    stated = [{"name": c.name, "type": c.type, "nullable": c.nullable} for c in table.columns]
    tables = [{"table": TABLE, "key": list(table.key), "columns": [*stated, *added]}]
    return message_feed(name, "debezium", kafka, [topics], patch, tables=tables)


@pytest.mark.long
def test_a_column_that_is_stated_while_the_table_is_quiet(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Published rows say that the column is unknown, though the window has no message of the table."""
    of = partial(stating, kafka, monkeypatch, "states", "quietly.*")
    messages = list(debezium.messages(LOG, schemas=False, snapshot=True, prefix="quietly"))
    own = [message for message in messages if message.topic.endswith(TABLE)]
    others = [message for message in messages if message not in own]
    for feed, part in ((of(), own), (of({"name": "note", "type": "int"}), others)):
        produce(kafka.bootstrap, part, partitions=1)
        run(spark, feed, window())
    rows = [row for kind in ("", "_history") for row in stored_rows(lake_name(feed, TABLE, kind))]
    assert rows
    assert {repr(row["_unknown_columns"]) for row in rows} == {"{'note': 'not_captured'}"}


@pytest.mark.long
def test_a_column_of_a_run_that_is_never_released(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run keeps its contract to itself, and its column goes when the next window is built."""
    table, of = LOG.table(TABLE), partial(stating, kafka, monkeypatch, "takes_back", "back.*")
    messages = [
        m for m in debezium.messages(LOG, schemas=False, snapshot=True, prefix="back") if TABLE in m.topic
    ]

    def columns() -> list[Any]:
        contract = control.contracts.of_table(feed.feed, TABLE)
        assert contract is not None
        return [contract.names, *(spark.table(lake_name(feed, TABLE, kind)).schema for kind in _KINDS)]

    feed, control = of(), ControlStore(Settings().control_url)
    produce(kafka.bootstrap, messages[:10], partitions=1)
    run(spark, feed, window())
    before = columns()
    produce(kafka.bootstrap, messages[10:], partitions=1)
    end = datetime.now(UTC)
    tried = Window(start=BEGIN, end=end, request=Request(dry_run=True))
    run(spark, of({"name": "note", "type": "int"}), tried, (extract, normalize, reconcile, audit))
    assert columns()[0] == before[0]
    # Another window, with the columns as before, is not released either.
    other = window()
    run(spark, feed, other, (extract, normalize))
    control.leases.release(feed.feed, other.holder)
    assert columns() == before
    over = Window(start=BEGIN, end=end)
    with pytest.raises(StageOrderError, match="has not finished"):
        run(spark, feed, over, (reconcile, audit, publish))
    run(spark, feed, over)
    assert current_rows(feed, table) == LOG.final_rows(table)
    assert columns() == before


_KINDS = {
    "": ("_operation", "_sort_key"),
    "_history": ("_operation", "_sort_key", "_valid_from", "_valid_to", "_is_deleted", "_break"),
    "_changes": (
        "operation",
        "key",
        "before",
        "after",
        "before_unknown_columns",
        "after_unknown_columns",
        "sort_key",
    ),
}


def _content(feed: Feed, kind: str) -> list[str]:
    cells = [] if kind == "_changes" else [*LOG.table(TABLE).names, "_unknown_columns"]
    names = [*cells, *_KINDS[kind]]
    rows = [{name: row[name] for name in names} for row in stored_rows(lake_name(feed, TABLE, kind))]
    # Independent of the order of columns: an added one is last.
    return sorted(json.dumps(row, sort_keys=True, default=repr) for row in rows)


def test_a_type_that_turns_into_another_stops_the_run(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = message_feed("turns", "ces", kafka, ["turns"], monkeypatch, tables=[{"table": TABLE}])
    produce(kafka.bootstrap, reported("turns", 0, 8), partitions=1)
    run(spark, feed, window())
    before = stored_rows(lake_name(feed, TABLE))
    produce(kafka.bootstrap, reported("turns", 8, 17, stock="nvarchar(10)"), partitions=1)
    over = window()
    run(spark, feed, over, (extract, normalize, reconcile))
    with pytest.raises(AuditFailed, match="shapes_fit_contracts") as failed:
        audit.run(spark, feed, over)
    assert f"{TABLE}.stock changed its type from smallint to nvarchar(10)" in str(failed.value)
    assert stored_rows(lake_name(feed, TABLE)) == before
