"""One person's rows are erased: no table, snapshot, tag or file has them, and all else is unchanged."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from sqlalchemy import select

from changeledger.audit.remedies import REMEDIES
from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore, ErasureRow
from changeledger.kernels.arrow import table_schema
from changeledger.lake import catalog, iceberg, new_tables, refs
from changeledger.lake.records import row_record
from changeledger.lake.refs import release_tag
from changeledger.model.contract import Column, Contract
from changeledger.model.errors import ConfigError, LeaseHeld, StageOrderError
from changeledger.model.table_names import NAMESPACE, snapshot_table
from changeledger.stages import audit, extract, normalize, publish, reconcile
from changeledger.stages.maintenance.erasing import Erasing
from changeledger.verify import repairs
from sourcelab import ces, debezium, sqlserver_cdc
from sourcelab.log import Log, simulate
from sourcelab.messages import produce
from sourcelab.services import KafkaBroker, Postgres
from tests.feeds import feed_of
from tests.integration.line import cdc_feed, debezium_feed, lake_name, message_feed, rows, run, window
from tests.released import release

pytestmark = pytest.mark.integration

TABLE = "dbo.customers"
SECRET = "of the people who run it"
KINDS = ("", "_history", "_changes")


@pytest.fixture(scope="module")
def log() -> Log:
    return simulate(5, 40)


def last_change(log: Log) -> int:
    """Returns the last transaction that touches a customer."""
    return max(
        at
        for at, transaction in enumerate(log.transactions)
        if any(change.table.name == "customers" for change in transaction.changes)
    )


def deleted(log: Log) -> int:
    """Returns the id of a customer deleted once, without key updates, unchanged by the last change."""
    seen: dict[int, list[tuple[int, str]]] = {}
    for at, transaction in enumerate(log.transactions):
        for change in transaction.changes:
            for row in (change.before, change.after) if change.table.name == "customers" else ():
                if row is not None:
                    seen.setdefault(int(row["id"]), []).append((at, change.operation))
    return next(
        person
        for person, reported in seen.items()
        if reported[-1][0] < last_change(log)
        and [operation for _, operation in reported].count("delete") == 1
        and not any(operation == "key_update" for _, operation in reported)
    )


class Person(NamedTuple):
    """A key's column and value, as published."""

    value: int | str
    column: str = "id"

    def on(self, side: str = "") -> str:
        return f"{side}{self.column} = '{self.value}'"


def others(spark: SparkSession, feed: Feed, person: Person) -> dict[str, list[str]]:
    """Returns what is published of everybody else."""
    sides = {"": "", "_history": "", "_changes": "key."}
    return {
        kind: sorted(
            map(
                repr,
                spark.table(lake_name(feed, TABLE, kind)).where(f"NOT {person.on(sides[kind])}").collect(),
            )
        )
        for kind in KINDS
    }


def in_files(spark: SparkSession, table: str, condition: str) -> int:
    """Counts rows in the data files on disk, whichever snapshot has them."""
    folder = Path(Settings().warehouse.removeprefix("file:"), *table.split(".")[1:], "data")
    data = [str(file) for file in folder.rglob("*.parquet") if not file.name.endswith("-deletes.parquet")]
    return spark.read.parquet(*data).where(condition).count() if data else 0


def require_gone(spark: SparkSession, feed: Feed, id_: int, person: Person) -> None:
    of_ledger = " OR ".join(person.on(side) for side in ("key.", "previous_key.", "before.", "after."))
    assert in_files(spark, lake_name(feed, TABLE), person.on()) == 0
    assert in_files(spark, lake_name(feed, TABLE, "_history"), person.on()) == 0
    assert in_files(spark, lake_name(feed, TABLE, "_changes"), of_ledger) == 0
    for kind in KINDS:
        manifests = rows(spark, f"{lake_name(feed, TABLE, kind)}.manifests")
        removed = [m for m in manifests if m["content"] == 0 and m["deleted_data_files_count"]]
        assert not removed, "of files that are gone they have the least and the greatest values"
    assert Erasing.of(spark, feed, TABLE, {"id": str(id_)}).counts() == {}
    newest = ControlStore(Settings().control_url).releases.latest(feed.feed)
    assert newest is not None
    tag = release_tag(newest.id)
    tables = [lake_name(feed, TABLE, kind) for kind in KINDS]
    assert refs.names(tables, refs.TAG) == {table: [tag] for table in tables}
    heads, tagged = refs.heads(tables, "main"), refs.heads(tables, tag)
    assert heads == tagged == {table: newest.tables[table] for table in tables}
    assert [row["tag"] for row in rows(spark, feed.lake.releases)] == [tag]


def repairs_of(spark: SparkSession, people: list[str]) -> DataFrame:
    """Returns repairs as a waiting run stores them, without the changes they would apply."""
    key = F.to_json(F.struct(F.col("value").alias("person")))
    known = {"source_position": row_record(F.lit("a proof"), F.encode(key, "UTF-8")), "table": F.lit(TABLE)}
    cells = {name: known.get(name, F.lit(None)).cast(kind) for name, kind in repairs.COLUMNS}
    return spark.createDataFrame(people, "string").select(*(c.alias(n) for n, c in cells.items()))


@pytest.mark.long
def test_a_person_of_a_topic(
    spark: SparkSession, kafka: KafkaBroker, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic has a tombstone, and a message that came twice."""
    person, reported = deleted(log), {"tables": [{"table": TABLE}]}
    feed = debezium_feed("erasing_messages", kafka, "erasing", monkeypatch, **reported)
    sent = [
        message
        for message in debezium.messages(
            log, schemas=True, snapshot=False, heartbeats=False, prefix="erasing"
        )
        if message.topic.endswith(TABLE)
    ]
    mine = [m for m in sent if json.loads(m.key)["payload"]["id"] == person]
    last = next(m for m in reversed(sent) if m not in mine)
    produce(kafka.bootstrap, [m for m in sent if m is not last], partitions=1)
    first = window()
    run(spark, feed, first)
    produce(kafka.bootstrap, mine[:1], partitions=1)
    second = window(start=first.end)
    run(spark, feed, second)
    raw, key = feed.lake.raw, mine[0].key
    assert [message.value is None for message in mine].count(True) == 1
    assert spark.table(raw).where(F.col("key") == F.lit(key)).count() == len(mine) + 1
    before = others(spark, feed, Person(person))
    control = ControlStore(Settings().control_url)

    erasing = Erasing.of(spark, feed, TABLE, {"ID": str(person)})
    counts = erasing.counts()
    # `raw` has the messages, one of them twice; `dispositions` has a tombstone and a duplicate.
    assert counts[raw] == len(mine) + 1
    assert counts[feed.lake.dispositions] == 2
    assert counts[lake_name(feed, TABLE, "_changes")] == len(mine) - 1
    # A run of the feed; jobs that have read the row and would write it later; and another erasure.
    for name in (feed.feed, "compare_shop", "verify_shop", NAMESPACE):
        control.leases.acquire(name, "another process", 60)
        with pytest.raises(LeaseHeld, match="another process works on"):
            erasing.erase("a tester")
        control.leases.release(name, "another process")
        assert control.leases.of_feed(feed.feed) is None, "it lets go what it had taken"
    assert erasing.erase("a tester") == counts
    require_gone(spark, feed, person, Person(person))
    assert in_files(spark, raw, f"key = unhex('{key.hex()}')") == 0
    assert others(spark, feed, Person(person)) == before
    release = control.releases.latest(feed.feed)
    assert release is not None
    for kind, suffix in {"current": "", "history": "_history"}.items():
        assert release.counts["tables"][TABLE][kind] == spark.table(lake_name(feed, TABLE, suffix)).count()
    with control.upkeep._transaction() as session:
        (note,) = session.scalars(select(ErasureRow).where(ErasureRow.feed == feed.feed))
    named = json.dumps([TABLE, [["id", str(person)]]])
    assert (note.table, note.by, note.counts) == (TABLE, "a tester", counts)
    assert note.key_hash == hashlib.sha256(named.encode()).hexdigest()
    # The feed continues.
    produce(kafka.bootstrap, [last], partitions=1)
    run(spark, feed, window(start=second.end))


@pytest.mark.long
def test_a_person_of_split_events(
    spark: SparkSession, kafka: KafkaBroker, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The messages' key is the table's name, so only the first segment of an event leads to the others."""
    person, reported = deleted(log), {"tables": [{"table": TABLE}]}
    feed = message_feed("erasing_segments", "ces", kafka, ["erased.changes"], monkeypatch, **reported)
    sent = list(ces.messages(log, generation="captured", split_at=700, topic="erased.changes"))
    produce(kafka.bootstrap, sent, partitions=1)
    run(spark, feed, window())
    envelopes = [json.loads(message.value or b"") for message in sent]
    events: dict[tuple[str, str], str] = {}
    for envelope in envelopes:
        name = envelope["logicalid"], envelope["operation"]
        events[name] = events.get(name, "") + envelope["data"]
    sources = {name: json.loads(data)["eventsource"] for name, data in events.items()}
    mine = {
        name
        for name, source in sources.items()
        if source["tbl"] == "customers" and source["pkkey"][0]["value"] == str(person)
    }
    segments = [e for e in envelopes if (e["logicalid"], e["operation"]) in mine]
    assert len(segments) > len(mine) > 0
    raw, before = feed.lake.raw, others(spark, feed, Person(person))
    assert Erasing.of(spark, feed, TABLE, {"id": str(person)}).erase("a tester")[raw] == len(segments)
    require_gone(spark, feed, person, Person(person))
    left = [json.loads(bytes(row["value"])) for row in rows(spark, raw)]
    assert not mine & {(envelope["logicalid"], envelope["operation"]) for envelope in left}
    assert len(left) == len(sent) - len(segments)
    assert others(spark, feed, Person(person)) == before


@pytest.mark.long
def test_a_person_of_a_change_table(
    spark: SparkSession,
    log: Log,
    postgres: Postgres,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The key is hashed. A window that is built and waits also has the rows, so it must be built again."""
    monkeypatch.setenv("CHANGELEDGER_HASH_KEY", SECRET)
    person = deleted(log)
    cut = last_change(log)
    sqlserver_cdc.load(postgres.url, log, to_tx=cut)
    hashed = {"table": TABLE, "publish": {"columns": {"id": {"hash": True, "rename": "person"}}}}
    feed = cdc_feed("erasing_rows", postgres, monkeypatch, tables=[hashed])
    first = window()
    run(spark, feed, first)
    sqlserver_cdc.append(postgres.url, log, cut, len(log.transactions))
    waiting = window(start=first.end)
    run(spark, feed, waiting, (extract, normalize, reconcile, audit))
    ControlStore(Settings().control_url).leases.release(feed.feed, waiting.holder)
    hidden = Person(hmac.new(SECRET.encode(), str(person).encode(), hashlib.sha256).hexdigest(), "person")
    before = others(spark, feed, hidden)
    assert spark.table(lake_name(feed, TABLE, "_history")).where(hidden.on()).count()
    docs = Settings().data_docs / feed.feed
    (docs / "a window that was taken back").mkdir()
    # `verify` has read the table, and since then only others.
    kept, read = snapshot_table(feed.database, TABLE), "SELECT explode(array({}, -1)) AS id"
    catalog.create_namespace(NAMESPACE)
    iceberg.put(spark.sql(read.format(person)), kept)
    planned = feed.lake.applied_repairs
    new_tables.create(planned, table_schema(repairs.COLUMNS))
    iceberg.append(repairs_of(spark, [str(hidden.value), "another's"]), planned)
    erased = Erasing.of(spark, feed, TABLE, {"id": str(person)}).erase("a tester")
    assert erased[planned] == len(rows(spark, planned)) == 1, "of a run that would apply it"
    passed = ControlStore(Settings().control_url).upkeep.passed_windows(feed.feed, REMEDIES)
    assert {folder.name for folder in docs.iterdir()} == passed
    assert [row["id"] for row in rows(spark, kept)] == [-1]
    assert in_files(spark, kept, f"id = {person}") == 0
    raw = f"lake.{feed.feed}.raw_dbo_customers"
    assert erased[raw] > 0
    require_gone(spark, feed, person, hidden)
    assert in_files(spark, raw, f"id = {person}") == 0
    assert others(spark, feed, hidden) == before
    with pytest.raises(StageOrderError):
        publish.run(spark, feed, waiting)
    assert "reads again" not in caplog.text
    run(spark, feed, waiting, (extract, normalize, reconcile, audit, publish))
    assert "reads again what was read before an erasure (1 key of dbo.customers)" in caplog.text
    assert not [row for row in rows(spark, lake_name(feed, TABLE)) if row["person"] == hidden.value]


@pytest.mark.long
def test_a_key_that_a_row_was_moved_from(
    spark: SparkSession, log: Log, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row stays under its other key, and no longer names the erased one."""
    table = log.table("sales.orders")
    moved = next(change for change in log.changes(table) if change.operation == "key_update")
    assert moved.before is not None
    assert moved.after is not None
    old, new = table.key_of(moved.before), table.key_of(moved.after)
    sqlserver_cdc.load(postgres.url, log)
    feed = cdc_feed("erasing_moved", postgres, monkeypatch, tables=[{"table": table.full_name}])
    run(spark, feed, window())
    history = lake_name(feed, table.full_name, "_history")
    named = " AND ".join(f"_previous_key.{n} = '{v}'" for n, v in zip(table.key, old, strict=True))
    assert in_files(spark, history, named) > 0
    of_new = " AND ".join(f"{n} = '{v}'" for n, v in zip(table.key, new, strict=True))
    before = spark.table(history).where(of_new).drop("_previous_key").collect()
    erasing = Erasing.of(
        spark, feed, table.full_name, {n: str(v) for n, v in zip(table.key, old, strict=True)}
    )
    assert len(erasing.linked()) >= 1
    erasing.erase("a tester")
    assert in_files(spark, history, named) == 0
    after = spark.table(history).where(of_new).drop("_previous_key").collect()
    assert sorted(map(repr, after)) == sorted(map(repr, before))


@pytest.mark.parametrize(
    ("table", "key", "said"),
    [
        ("dbo.nothing", {"id": "1"}, "has no table dbo.nothing"),
        (TABLE, {"name": "x"}, "the key of dbo.customers is id"),
        (TABLE, {"id": "x"}, "'x' is not a value of dbo.customers.id"),
    ],
)
def test_a_key_that_the_table_has_not(
    spark: SparkSession, table: str, key: dict[str, str], said: str
) -> None:
    feed = feed_of("erasing_nothing", TABLE)
    contract = Contract(table=TABLE, columns=(Column(name="id", type="int", ordinal=1, key_position=1),))
    release(ControlStore(Settings().control_url), feed.feed, [contract])
    with pytest.raises(ConfigError, match=said):
        Erasing.of(spark, feed, table, key)
