"""Runs that go wrong: what is published stays right, and the error says what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from pyspark.sql import SparkSession

from changeledger.audit.gate import docs_index
from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore, furthest
from changeledger.jdbc.database import JdbcDatabase
from changeledger.lake import refs
from changeledger.model.errors import AuditFailed, ConfigError, SourceDataLostError, StageOrderError
from changeledger.stages import audit, extract, normalize, publish, reconcile
from changeledger.state import status
from sourcelab import sqlserver_cdc
from sourcelab.services import Postgres
from sourcelab.tables import CUSTOMERS
from tests.faults.test_sources import extracted
from tests.integration.line import current_rows, lake_name, run, window
from tests.one_release import LOG, RELEASED, OneRelease, feed_of
from tests.stored_rows import stored_rows

pytestmark = pytest.mark.integration

TABLE = '"cdc"."dbo_customers_CT"'
BUILD = (extract, normalize, reconcile)


@pytest.fixture
def lake(
    spark: SparkSession, one_release: OneRelease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SparkSession:
    """A copy of the lake with one release, for the test's own source."""
    return one_release.copy(spark, tmp_path, monkeypatch)


@pytest.fixture
def source(postgres: Postgres) -> Postgres:
    sqlserver_cdc.load(postgres.url, LOG, to_tx=RELEASED)
    return postgres


@pytest.fixture
def feed(source: Postgres, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Feed:
    feed, name = feed_of(source, monkeypatch), request.node.name.removeprefix("test_")[:50]
    return feed if "lake" in request.fixturenames else feed.model_copy(update={"feed": name})


def test_a_failed_audit_publishes_nothing(lake: SparkSession, feed: Feed, source: Postgres) -> None:
    before = published(feed)
    sqlserver_cdc.append(source.url, LOG, RELEASED, len(LOG.transactions))
    with psycopg.connect(_dsn(source), autocommit=True) as database:
        # The mask of an update says that nothing changed; both rows of a pair carry the same mask.
        mask = 'set_byte(set_byte("__$update_mask", 0, 0), length("__$update_mask") - 1, 0)'
        of_update = 'WHERE "__$operation" IN (3, 4) AND "__$start_lsn" = %s'
        lie = f'UPDATE {TABLE} SET "__$update_mask" = {mask} {of_update}'
        last = database.execute(
            f'SELECT max("__$start_lsn") FROM {TABLE} WHERE "__$operation" = 4'
        ).fetchone()
        masks = database.execute(
            f'SELECT "__$seqval", "__$operation", "__$update_mask" FROM {TABLE} WHERE "__$start_lsn" = %s',
            last,
        ).fetchall()
        database.execute(lie, last)
        over = window()
        run(lake, feed, over, BUILD)
        with pytest.raises(AuditFailed, match=r"mask_agrees_with_images: \d+ violation") as failed:
            audit.run(lake, feed, over)
        branch = re.search(rf"branch_({over.branch}_\d+)", str(failed.value))
        assert branch, "as it is named in the lake"
        page = docs_index(Settings().data_docs, feed.feed, over).read_text("utf-8")
        assert f".branch_{branch[1]} WHERE change_id IN (" in page, "what to read next"
        assert "changed names no column" in page, "both images and what the mask names"
        with pytest.raises(StageOrderError, match="mask_agrees_with_images"):
            publish.run(lake, feed, over)
        assert published(feed) == before, "nothing that a reader sees has moved"
        left = refs.names([lake_name(feed, CUSTOMERS.full_name)], refs.BRANCH)
        assert any(name.startswith(over.branch) for names in left.values() for name in names), "kept"
        # The source is corrected, and the same window run again.
        for seqval, operation, true_mask in masks:
            database.execute(
                f'UPDATE {TABLE} SET "__$update_mask" = %s '
                'WHERE "__$start_lsn" = %s AND "__$seqval" = %s AND "__$operation" = %s',
                (true_mask, *last, seqval, operation),
            )
    run(lake, feed, over)
    assert current_rows(feed, CUSTOMERS) == LOG.final_rows(CUSTOMERS)


def test_the_same_window_twice(lake: SparkSession, feed: Feed, one_release: OneRelease) -> None:
    over = one_release.over
    before = published(feed)
    run(lake, feed, over)
    assert published(feed) == before
    # Every stage again, like cleared tasks of a run that is not released yet.
    again = window()
    for stage in (extract, extract, normalize, normalize, reconcile, reconcile, audit, publish):
        stage.run(lake, feed, again)
    ledger = stored_rows(lake_name(feed, "dbo.customers", "_changes"))
    assert len({row["change_id"] for row in ledger}) == len(ledger)


def test_bad_rows_are_quarantined_and_the_rest_published(
    spark: SparkSession, feed: Feed, source: Postgres
) -> None:
    end = LOG.transactions[RELEASED - 1].commit_lsn
    with psycopg.connect(_dsn(source), autocommit=True) as database:
        for number, change in enumerate(
            (
                {"__$operation": 9},
                {"__$update_mask": b"\x01\x02\x03\x04\x05"},
                {"id": None},
                {"__$seqval": b"\x01\x02"},
                {"__$operation": 3},
            )
        ):
            _copy_row(database, end, 100 + number, change)
    run(spark, feed, window())
    quarantine = stored_rows(feed.lake.quarantine)
    assert sorted(row["reason"] for row in quarantine) == [
        "before_without_after", "malformed_lsn", "mask_width", "null_key", "unknown_operation",
    ]  # fmt: skip
    assert all(row["raw_value"] for row in quarantine), "the row as it came"
    reported = {tuple(row[k] for k in CUSTOMERS.key) for row in stored_rows(lake_name(feed, "dbo.customers"))}
    assert reported, "the good rows are published"


def test_a_row_that_changed_unseen_breaks_the_image_chain(
    lake: SparkSession, feed: Feed, source: Postgres
) -> None:
    """The capture lost an update: the next update finds, and leaves, a value that no change wrote."""
    sqlserver_cdc.append(source.url, LOG, RELEASED, len(LOG.transactions))
    key, (lsn, seqval) = _last_update(without="email")
    with psycopg.connect(_dsn(source), autocommit=True) as database:
        of_update = 'WHERE "__$start_lsn" = %s AND "__$seqval" = %s'
        database.execute(f"UPDATE {TABLE} SET email = 'unseen' {of_update}", (lsn, seqval))
    over = window()
    with pytest.raises(AuditFailed, match=r"dbo.customers: image_chain: 1 violation"):
        run(lake, feed.model_copy(update={"image_chain": "stop"}), over)
    before = published(feed)
    run(lake, feed, over, (audit, publish))
    assert published(feed) != before, "reported, and published all the same"
    (chain_break,) = stored_rows(feed.lake.image_chain_breaks)
    assert (chain_break["kind"], chain_break["columns"], chain_break["key"]) == (
        "cells_differ",
        ["email"],
        f'{{"id":{key}}}',
    )
    assert (chain_break["known"]["email"], chain_break["before"]["email"]) != ("unseen", "unseen")
    assert chain_break["before"]["email"] == "unseen"
    assert bytes(chain_break["commit_lsn"]) == lsn
    control = ControlStore(Settings().control_url)
    broken = [
        (a.table, a.rule, a.violations) for a in control.audits.of_window(feed.feed, over.id) if not a.success
    ]
    # The other rule only says that this source, of 2024, stands still.
    assert [audited for audited in broken if audited[1] != "source_is_read_on"] == [
        ("dbo.customers", "image_chain", 1)
    ]
    assert status.gather(control, feed).breaks == (("dbo.customers", "cells_differ", 1),)
    # The next run that touches the row has nothing new to report about it.
    with psycopg.connect(_dsn(source), autocommit=True) as database:
        cursor = database.cursor(row_factory=dict_row)
        selected = cursor.execute(f'SELECT * FROM {TABLE} {of_update} AND "__$operation" = 4', (lsn, seqval))
        cells = {n: v for n, v in (selected.fetchone() or {}).items() if not n.startswith("__$")}
        end = (int.from_bytes(LOG.transactions[-1].commit_lsn) + 1).to_bytes(10)
        _copy_row(database, end, 1, {**cells, "__$start_lsn": end, "__$operation": 1})
        database.execute(
            "INSERT INTO cdc.lsn_time_mapping SELECT %s, tran_begin_time, tran_end_time + interval '1 s', "
            "tran_id, tran_begin_lsn FROM cdc.lsn_time_mapping ORDER BY start_lsn DESC LIMIT 1",
            (end,),
        )
    again = window()
    run(lake, feed, again)
    broken = {
        audited.rule for audited in control.audits.of_window(feed.feed, again.id) if not audited.success
    }
    assert broken <= {"source_is_read_on"}
    assert key not in {row["id"] for row in stored_rows(lake_name(feed, "dbo.customers"))}
    assert len(stored_rows(feed.lake.image_chain_breaks)) == 1


def _last_update(without: str) -> tuple[int, tuple[bytes, bytes]]:
    """Returns key and position of an update in the second half that is the last change of its row."""
    last: dict[int, Any] = {}
    for number, transaction in enumerate(LOG.transactions):
        for change in transaction.changes:
            if change.table is CUSTOMERS:
                row = change.after or change.before
                assert row is not None
                last[row["id"]] = (number, transaction, change)
    key, (_, transaction, change) = next(
        (key, reported)
        for key, reported in last.items()
        if reported[0] >= RELEASED
        and reported[2].operation == "update"
        and without not in reported[2].changed
    )
    return key, (transaction.commit_lsn, change.change_lsn)


def test_a_gap_is_named(lake: SparkSession, feed: Feed, source: Postgres) -> None:
    with psycopg.connect(_dsn(source), autocommit=True) as database:
        database.execute("UPDATE cdc.change_tables SET start_lsn = %s", (b"\xff" * 10,))
    with pytest.raises(SourceDataLostError, match="dbo_customers_CT begins at f"):
        extract.run(lake, feed, window())


def test_a_clean_up_between_the_check_and_the_count(
    lake: SparkSession, feed: Feed, source: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source counts what is left, and just that comes: only a second look at start_lsn shows the loss."""
    sqlserver_cdc.append(source.url, LOG, RELEASED, len(LOG.transactions))
    usual = JdbcDatabase.count

    def cleaned(database: JdbcDatabase, queries: Any) -> int:
        low = LOG.transactions[16].begin_lsn
        with psycopg.connect(_dsn(source), autocommit=True) as session:
            session.execute("UPDATE cdc.change_tables SET start_lsn = %s", (low,))
            session.execute(f'DELETE FROM {TABLE} WHERE "__$start_lsn" < %s', (low,))
        return usual(database, queries)

    monkeypatch.setattr(JdbcDatabase, "count", cleaned)
    with pytest.raises(SourceDataLostError, match="dbo_customers_CT begins at"):
        extract.run(lake, feed, window())


@pytest.mark.parametrize("is_behind_a_failed_run", [False, True])
def test_a_name_that_was_given_to_another_table(
    lake: SparkSession, feed: Feed, source: Postgres, is_behind_a_failed_run: bool
) -> None:
    """What is published is of the first one, however far a run has read that was not released."""
    control = ControlStore(Settings().control_url)
    (mark,) = control.sources.marks(feed.feed).values()
    # As version 0.1 stored it: without the table's id.
    known = mark._replace(identity=mark.identity.partition(" (")[0])
    control.sources.save_marks(feed.feed, {"dbo.customers": known})
    extracted(lake, feed)
    if is_behind_a_failed_run:
        sqlserver_cdc.append(source.url, LOG, RELEASED, len(LOG.transactions))
        extracted(lake, feed)
    with psycopg.connect(_dsn(source), autocommit=True) as database:
        database.execute(
            """
            INSERT INTO sys.tables SELECT 9999, name, schema_id FROM sys.tables WHERE name = 'customers';
            UPDATE cdc.change_tables SET source_object_id = 9999 WHERE capture_instance = 'dbo_customers';
            """
        )
    with pytest.raises(SourceDataLostError, match="another table of that name"):
        extract.run(lake, feed, window())


def test_a_missing_connection(spark: SparkSession, feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(f"AIRFLOW_CONN_{feed.connection.upper()}")
    with pytest.raises(ConfigError, match=f"the connection '{feed.connection}' does not exist"):
        extract.run(spark, feed, window())


def test_stages_out_of_order(spark: SparkSession, feed: Feed) -> None:
    with pytest.raises(StageOrderError, match="has not been extracted"):
        normalize.run(spark, feed, window())


def test_a_position_never_goes_back() -> None:
    assert furthest({"t": {"0": 5, "1": 9}}, {"t": {"0": 7}, "u": {"0": 1}}) == {
        "t": {"0": 7, "1": 9},
        "u": {"0": 1},
    }
    assert furthest({"lsn": "0A"}, {"lsn": "09"}) == {"lsn": "0A"}


def published(feed: Feed) -> dict[str, Any]:
    names = [lake_name(feed, "dbo.customers", kind) for kind in ("", "_history", "_changes")]
    return {name: refs.snapshot_of(name) for name in names}


def _copy_row(database: psycopg.Connection[Any], lsn: bytes, command: int, change: dict[str, Any]) -> None:
    """Adds a copy of a captured row to the last transaction, with the cells of `change`."""
    cursor = database.execute(f'SELECT * FROM {TABLE} WHERE "__$operation" = 2 LIMIT 1')
    assert cursor.description is not None
    names = [d.name for d in cursor.description]
    row = dict(zip(names, cursor.fetchone() or (), strict=True))
    row |= {"__$start_lsn": lsn, "__$command_id": command, "id": 10_000 + command, **change}
    columns = ", ".join(f'"{n}"' for n in names)
    marks = ", ".join(["%s"] * len(names))
    database.execute(f"INSERT INTO {TABLE} ({columns}) VALUES ({marks})", [row[n] for n in names])


def _dsn(source: Postgres) -> str:
    return source.url.replace("+psycopg", "")
