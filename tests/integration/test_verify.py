"""What a feed has published, compared with the tables of its source: a real PostgreSQL, all stages."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from pyspark.sql import Row as SparkRow
from pyspark.sql import SparkSession

from changeledger.config.database import AUTO, FRESH, REUSE, Database, Verify
from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.lake import catalog
from changeledger.model import change, table_names
from changeledger.model.errors import ConfigError, PublishedDrifts
from changeledger.model.table_names import NAMESPACE, TableNames
from changeledger.model.window import Request, Window
from changeledger.reports.proof import verify_and_report
from changeledger.spark.rows import Workers
from changeledger.stages import extract, verify
from changeledger.stages.verification import snapshot
from sourcelab import base_tables, sqlserver_cdc
from sourcelab.log import Change, Log, Transaction, simulate
from sourcelab.postgres import plain_url
from sourcelab.services import Postgres
from sourcelab.tables import CUSTOMERS, ORDERS, PARTS, Key, Row
from tests.integration.line import cdc_feed, run, window
from tests.ledger_rows import contract_of
from tests.reconcile.tables import rows_of

pytestmark = pytest.mark.integration

TABLES = (CUSTOMERS, ORDERS, PARTS)
SECRET = "of the people who run it"
# What is published differently from the source, including the key of the parts.
PUBLISH: dict[str, dict[str, Any]] = {
    "dbo.customers": {
        "email": "hash",
        "notes": "drop",
        "credit": {"cast": "decimal(20,6)"},
        "born": {"cast": "timestamp"},
        "created_at": {"rename": "made_at"},
    },
    "dbo.parts": {"part_id": {"hash": True, "rename": "part"}, "code": "hash"},
}
# The types that a Qlik task writes for these in PostgreSQL; the others are as in the source's own tables.
_QLIK_TYPES = {
    "uniqueidentifier": "upper({}::text)::varchar(38)",
    "time": "{}::time(3)",
    "tinyint": "{}::numeric(3)",
}


@pytest.fixture(scope="module")
def postgres(new_database: Callable[[], Postgres]) -> Postgres:
    return new_database()


def database(**verified: Any) -> Database:
    """Returns a database with a name of its own, which no other test has read."""
    return Database.model_validate(
        {"database": "warehouse", "verify": {"grace_period": timedelta(0), **verified}}
    )


def reported(log: Log, first: int, last: int, postgres: Postgres, captured: bool = True) -> None:
    for source in (base_tables, sqlserver_cdc) if captured else (base_tables,):
        if first:
            source.append(postgres.url, log, first, last)
        else:
            source.load(postgres.url, log, last)


def outcomes(spark: SparkSession, of: Database, feed: Feed, what: str = AUTO) -> dict[str, Any]:
    return {row.table: row for row in verify.run(spark, of, {feed.feed: feed}, what)}


@pytest.mark.long
def test_a_feed_is_proved_and_drift_is_found_exactly(  # noqa: PLR0915
    spark: SparkSession, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = simulate(31, 60, datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1))
    monkeypatch.setenv("CHANGELEDGER_HASH_KEY", SECRET)
    tables = [{"table": t.full_name, "publish": {"columns": PUBLISH.get(t.full_name, {})}} for t in TABLES]
    named = {"tables": tables, "database": "warehouse"}
    feed = cdc_feed("verified", postgres, monkeypatch, **named)
    shop = database()
    reported(log, 0, 30, postgres)
    full_load(postgres)
    run(spark, feed, window())

    # The first release starts the first reading. Nothing changes, so the proof succeeds at once, though no
    # window has ended since.
    assert verify.waits(shop, {feed.feed: feed}, REUSE)
    proved = outcomes(spark, shop, feed, REUSE)
    assert {name: row.outcome for name, row in proved.items()} == {t.full_name: "proven" for t in TABLES}
    for table in TABLES:
        rows = len(Log(log.tables, log.transactions[:30]).final_rows(table))
        counts = proved[table.full_name].counts
        assert (counts["rows"], counts["equal"], counts["read_again"]) == (rows, rows, 0)
    # The log's last LSN was captured before and after the reading.
    (since, until) = {(row.since_lsn, row.until_lsn) for row in proved.values()}.pop()
    assert since == until >= log.transactions[29].commit_lsn.hex().upper()
    # The source is read if requested, but not if nothing waits.
    assert outcomes(spark, shop, feed, REUSE) == {}
    assert not verify.waits(shop, {feed.feed: feed}, REUSE)

    # The tables are ahead of the capture, and the capture is ahead of the feed: the outcome is still unknown.
    reported(log, 30, 45, postgres, captured=False)
    waiting = outcomes(spark, shop, feed)
    assert {row.outcome for row in waiting.values()} == {"waiting"}
    assert verify.waits(shop, {feed.feed: feed}, REUSE)
    sqlserver_cdc.append(postgres.url, log, 30, 45)
    reported(log, 45, 61, postgres)
    run(spark, feed, window())
    # The feed has passed what was read: everything is proved by the earlier reading.
    proved = outcomes(spark, shop, feed, REUSE)
    assert {row.outcome for row in proved.values()} == {"proven"}
    assert {row.snapshot_id for row in proved.values()} == {row.snapshot_id for row in waiting.values()}
    assert all(row.counts["in_flight"] > 0 for row in proved.values())

    check_published(spark, feed, log)
    check_full_load(spark, feed)
    changed, lost, fresh = spoil(postgres, log)
    # It may be a change that the feed has not written yet.
    assert outcomes(spark, shop, feed, FRESH)["dbo.customers"].outcome == "waiting"
    run(spark, feed, window())
    with pytest.raises(PublishedDrifts, match="1 missing, 1 extra, 1 differs"):
        verify_and_report(spark, shop, {feed.feed: feed})
    drift = spark.table(table_names.DRIFT).where("feed = 'verified'").collect()
    assert {(row["verdict"], row["key"]) for row in drift} == {
        ("differs", f'{{"id":{changed[0]}}}'),
        ("extra", f'{{"id":{lost[0]}}}'),
        ("missing", f'{{"id":{fresh}}}'),
    }
    assert {row["table"] for row in drift} == {"dbo.customers"}
    (cell,) = next(row["cells"] for row in drift if row["verdict"] == "differs")
    assert (cell["name"], cell["source"]) == ("name", "somebody else")
    assert cell["published"] == log.final_rows(CUSTOMERS)[changed]["name"]
    repairs = spark.table(table_names.REPAIRS).where("feed = 'verified'").collect()
    assert {row["operation"] for row in repairs} == {"insert", "update", "delete"}
    check_page()
    control = ControlStore(Settings().control_url)
    last = {row.table: row.outcome for row in control.proofs.last("warehouse")["verified"]}
    assert last == {t.full_name: "proven" for t in TABLES} | {"dbo.customers": "drift"}

    # The source changes one of the rows again, before a repair is decided.
    credit = write_later(postgres, log, changed)
    run(spark, feed, window())
    check_repair(spark, shop, feed, {"differs": changed, "extra": lost, "missing": (fresh,)}, credit)
    with pytest.raises(ConfigError, match="there is nothing to repair"):
        run(spark, feed, repair("again"))


def repair(who: str) -> Window:
    return window().model_copy(update={"request": Request(mode="repair", run=who)})


def write_later(postgres: Postgres, log: Log, key: Key) -> Decimal:
    """Updates in the source a row that was changed without a log record, and returns its new credit."""
    last = log.transactions[-1]
    before = log.final_rows(CUSTOMERS)[key] | {"name": "somebody else"}
    after = before | {"credit": Decimal("1234.50")}
    lsn = (int.from_bytes(last.commit_lsn) + 1).to_bytes(10)
    now = datetime.now(UTC).replace(microsecond=0)
    update = Change(CUSTOMERS, "update", before, after, lsn, 1, ("credit",), 1)
    further = replace(log, transactions=(*log.transactions, Transaction(now, now, lsn, lsn, (update,))))
    reported(further, len(log.transactions), len(further.transactions), postgres)
    return Decimal("1234.50")


def check_repair(
    spark: SparkSession, shop: Database, feed: Feed, wrong: dict[str, Key], credit: Decimal
) -> None:
    """Each repair is in the ledger with its proof, and does not undo what the source did later."""
    names = TableNames.of(feed.namespace, CUSTOMERS.full_name)
    (shown,) = broken(spark, feed)
    # Another run with the same plan adds nothing, even if it resumes after all is right.
    second = repair("second")
    extract.run(spark, feed, second)
    ControlStore(Settings().control_url).leases.release(feed.feed, second.holder)
    run(spark, feed, repair("first"))
    assert {row.outcome for row in outcomes(spark, shop, feed, FRESH).values()} == {"proven"}
    run(spark, feed, second)
    ledger = spark.table(names.changes).where(f"array_contains(flags, '{change.REPAIRED}')").collect()
    by_key = {(row["key"]["id"],): row for row in ledger}
    operations = {"differs": "update", "extra": "delete", "missing": "insert"}
    assert {key: row["operation"] for key, row in by_key.items()} == {
        wrong[verdict]: operation for verdict, operation in operations.items()
    }
    assert by_key[wrong["differs"]]["changed"] == ["name"]
    assert {row["transaction_id"] for row in ledger} == {row["source_position"]["source"] for row in ledger}
    assert len(ledger) == 3
    # The later update's before image contradicted the ledger; after the repair it fits.
    assert shown["columns"] == ["name"]
    assert broken(spark, feed) == []
    id_ = wrong["differs"][0]
    versions = spark.table(names.history).where(f"id = {id_}").orderBy("_sort_key").collect()
    assert [(row["name"], row["credit"]) for row in versions[-2:]] == [
        ("somebody else", by_key[wrong["differs"]]["before"]["credit"]),
        ("somebody else", credit),
    ]
    assert versions[-3]["_valid_to"] == versions[-2]["_valid_from"]


def broken(spark: SparkSession, feed: Feed) -> list[SparkRow]:
    if not spark.catalog.tableExists(feed.lake.image_chain_breaks):
        return []
    return spark.table(feed.lake.image_chain_breaks).collect()


def full_load(postgres: Postgres) -> None:
    """Copies the tables like a Qlik task's full load, in its target's types; nothing is applied later."""
    with psycopg.connect(plain_url(postgres.url)) as session:
        session.execute("CREATE SCHEMA behind")
        for table in TABLES:
            cells = (f"{_QLIK_TYPES.get(c.base, '{}').format(c.name)} AS {c.name}" for c in table.columns)
            rows = f"SELECT {', '.join(cells)} FROM {table.full_name}"
            session.execute(f"CREATE TABLE behind.{table.name} AS {rows}")


def check_published(spark: SparkSession, feed: Feed, log: Log) -> None:
    """Asserts that no table has a plain value, and that each value follows its publish rule."""
    wanted = {
        row["id"]: (
            _digest(row["email"]),
            row["credit"],
            row["born"] and datetime.combine(row["born"], time()),
        )
        for row in log.final_rows(CUSTOMERS).values()
    }
    names = TableNames.of(feed.namespace, CUSTOMERS.full_name)
    current = spark.table(names.current)
    assert {row["id"]: (row["email"], row["credit"], row["born"]) for row in current.collect()} == wanted
    assert "made_at" in current.columns
    assert not {"notes", "created_at"} & set(current.columns)
    parts = spark.table(TableNames.of(feed.namespace, PARTS.full_name).current).collect()
    source_parts = log.final_rows(PARTS).values()
    assert {(r["part"], r["code"]) for r in parts} == {
        (_digest(str(r["part_id"]).upper()), _digest(r["code"])) for r in source_parts
    }
    digests = {
        _digest(e) for t in log.transactions for c in t.changes if c.table is CUSTOMERS for e in _emails(c)
    }
    ledger = spark.table(names.changes).select("before", "after").collect()
    in_images = {image["email"] for row in ledger for image in row if image is not None}
    in_history = {row["email"] for row in spark.table(names.history).collect()}
    assert len(in_history | in_images) > 3
    assert in_history | in_images <= digests | {None}
    (note,) = [row for row in spark.sql(f"DESCRIBE {names.current}").collect() if row["col_name"] == "email"]
    assert note["comment"] == "dbo.customers.email, nvarchar(100); published with hash"


def _emails(source_change: Change) -> list[str | None]:
    return [row["email"] for row in (source_change.before, source_change.after) if row is not None]


def _digest(text: str | None) -> str | None:
    return None if text is None else hmac.new(SECRET.encode(), text.encode(), hashlib.sha256).hexdigest()


def check_full_load(spark: SparkSession, feed: Feed) -> None:
    """The full load is behind the source: missing changes are in flight within the allowed lag."""
    for lag, outcome in ((timedelta(hours=2), "proven"), (timedelta(0), "waiting")):
        behind = database(connection="verified", schemas={"dbo": "behind", "sales": "behind"}, lag=lag)
        assert {row.outcome for row in outcomes(spark, behind, feed, FRESH).values()} == {outcome}


def check_page() -> None:
    folder = Settings().data_docs / "verify_warehouse"
    page, text = ((folder / name).read_text("utf-8") for name in ("index.html", "proof.md"))
    for document in (page, text):
        assert "verified has drifted: dbo.customers (1 missing, 1 extra, 1 differs)" in document
        assert "somebody else" in document
        assert "54321" in document
    assert "<b>name</b>: <code>somebody else</code> | <code>" in page
    assert '- delete `{"id":' in text


def spoil(postgres: Postgres, log: Log) -> tuple[Key, Key, int]:
    """Changes the source without the log: a cell differs, a row is gone, and a row is new."""
    rows = log.final_rows(CUSTOMERS)
    changed, lost, model = sorted(rows)[:3]
    new: Row = rows[model] | {"id": 54_321}
    with psycopg.connect(plain_url(postgres.url)) as session:
        session.execute("UPDATE dbo.customers SET name = 'somebody else' WHERE id = %s", changed)
        base_tables.delete(session, CUSTOMERS, lost)
        base_tables.insert(session, CUSTOMERS, [new])
    return changed, lost, 54_321


def test_a_large_table_is_read_in_parts(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, new_database: Callable[[], Postgres]
) -> None:
    """Each row is read once, whatever the type of the key's first column."""
    log, tables = simulate(32, 20), (CUSTOMERS, ORDERS, PARTS)
    catalog.create_namespace(NAMESPACE)
    source_database = new_database()
    base_tables.load(source_database.url, log)
    monkeypatch.setenv("AIRFLOW_CONN_IN_PARTS", json.dumps(source_database.connection))
    source = Verify(connection="in_parts", partition_rows=5)
    with Workers(lambda: spark) as workers:
        taken = snapshot.take(spark, workers, "parted", source, {t.full_name: contract_of(t) for t in tables})
    assert (taken.since_lsn, taken.until_lsn) == (None, None)
    assert timedelta(0) <= taken.until - taken.since < timedelta(minutes=5)
    assert abs(datetime.now(UTC) - taken.until) < timedelta(minutes=5)
    for table in tables:
        kept = taken.tables[table.full_name]
        rows = rows_of(catalog.load(kept["name"]).scan(snapshot_id=kept["snapshot"]).to_arrow())
        reported = [{name: row[name] for name in table.names} for row in rows]
        assert len(reported) == len(log.final_rows(table)) > 10
        assert {table.key_of(row): row for row in reported} == log.final_rows(table)
