"""Each rule of a table fails for a branch that is corrupted after the write, in the audit of a real run.

An audit judges several faults at once: a finding about one table is about no other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn
from unittest import mock

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from changeledger.audit import key_rules
from changeledger.audit.gate import docs_index
from changeledger.audit.rules import OF_ARRIVAL, TABLE_RULES
from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import BuiltSnapshots, ControlStore
from changeledger.kernels.arrow import table_schema
from changeledger.lake import catalog, new_tables, refs
from changeledger.model import change
from changeledger.model.errors import AuditFailed
from changeledger.model.window import Window
from changeledger.stages import audit, extract, normalize, reconcile
from sourcelab import sqlserver_cdc
from sourcelab.log import simulate
from sourcelab.services import Postgres
from tests.faults.matrix.lab import State
from tests.integration.line import cdc_feed, lake_name, run, window
from tests.lake_states import lake_of
from tests.stored_rows import stored_rows

pytestmark = pytest.mark.integration

TABLE = "dbo.customers"
TABLES = (TABLE, "sales.orders", "dbo.parts")
# `{changes}`, `{history}`, `{current}`, `{dispositions}`, `{breaks}`: tables of the branch; `{run}`: its
# window; `{table}`: the source's table; `{update}`: the id of one of its updates; `{earlier}`: the id of a
# change published before.
OF_UPDATE = "WHERE change_id = '{update}'"
AGAIN = "INSERT INTO {changes} SELECT * FROM {changes} " + OF_UPDATE
OF_TABLE = {"window_id": "'{run}'", "table": "'{table}'"}


class Added(NamedTuple):
    """A copy of another row, or a row of NULLs, with these values."""

    to: str
    values: dict[str, str]
    like: str = ""


# `OF_ARRIVAL` does not apply to SQL Server's CDC tables: test_restored_database, test_second_load.
FAULTS: dict[str, list[str | Added]] = {
    "mask_agrees_with_images": ["UPDATE {changes} SET flags = array('mask_disagrees') " + OF_UPDATE],
    "operation_has_its_images": ["UPDATE {changes} SET after = NULL " + OF_UPDATE],
    "key_not_null": ["UPDATE {changes} SET committed_at = NULL " + OF_UPDATE],
    "lsn_width": ["UPDATE {changes} SET commit_lsn = X'00' " + OF_UPDATE],
    "change_id_unique": [AGAIN],
    "order_strict": [Added("changes", {"change_id": "'other'"}, OF_UPDATE)],
    "ledger_keeps_everything": ["DELETE FROM {changes} WHERE change_id = '{earlier}'"],
    "duplicates_leave_one": [
        Added("dispositions", {**OF_TABLE, "reason": "'delivered_again'",
                               "detail": "'gone'"})
    ],
    "interval_forward": ["UPDATE {history} SET _valid_to = DATE '1900-01-01' WHERE _window_id = '{run}'"],
    "one_open_interval": ["UPDATE {history} SET _valid_to = NULL WHERE _window_id = '{run}'"],
    "changes_are_applied": ["UPDATE {history} SET _commit_lsn = NULL WHERE _change_id = '{update}'"],
    "current_equals_open_history": ["UPDATE {current} SET _commit_lsn = NULL WHERE _window_id = '{run}'"],
    "current_key_unique": ["INSERT INTO {current} SELECT * FROM {current} WHERE _window_id = '{run}'"],
    "current_key_not_null": ["UPDATE {current} SET id = NULL WHERE _window_id = '{run}'"],
    "image_chain": [
        Added("breaks", {**OF_TABLE, "change_id": "'{update}'", "kind": "'cells_differ'"})
    ],
}  # fmt: skip
# A rule of the feed's records.
OF_RECORDS = {"records_are_kept": [Added("quarantine", {**OF_TABLE})]}
# By audit, the rules whose faults each of `TABLES` has; no fault may break another one's rule, too.
AUDITS = [
    (
        ("mask_agrees_with_images",),
        ("operation_has_its_images",),
        ("current_equals_open_history", "changes_are_applied"),
    ),
    (("lsn_width",), ("order_strict", "image_chain"), ("key_not_null",)),
    (("change_id_unique", "current_key_not_null"), ("one_open_interval",), ("duplicates_leave_one",)),
    (("ledger_keeps_everything",), ("interval_forward",), ("current_key_unique",)),
]


class Built(NamedTuple):
    """One window is published, and `over` is built up to the audit."""

    source: Postgres
    files: Path
    state: State
    over: Window


@pytest.fixture(scope="module")
def built(
    spark: SparkSession, new_database: Callable[[], Postgres], tmp_path_factory: pytest.TempPathFactory
) -> Built:
    source, folder, log = new_database(), tmp_path_factory.mktemp("corrupt"), simulate(5, 24)
    sqlserver_cdc.load(source.url, log, to_tx=12)
    now, over = State(folder / "now"), window()
    with pytest.MonkeyPatch.context() as patch:
        session, feed = lake_of(spark, now, folder / "files", patch), feed_of(source, patch)
        run(session, feed, window())
        sqlserver_cdc.append(source.url, log, 12, len(log.transactions))
        over = window()
        run(session, feed, over, (extract, normalize, reconcile))
    return Built(source, folder / "files", now, over)


def feed_of(source: Postgres, patch: pytest.MonkeyPatch) -> Feed:
    tables = [{"table": table} for table in TABLES]
    return cdc_feed("corrupt", source, patch, tables=tables, image_chain="stop")


def control() -> ControlStore:
    return ControlStore(Settings().control_url)


def corrupt(session: SparkSession, feed: Feed, over: Window, faults: Sequence[tuple[str, str]]) -> None:
    """Writes the fault of each rule on the branch of its table, and marks it as built by reconcile."""
    done = control().windows.stage(feed.feed, over, "reconcile")
    assert done is not None
    shared = {
        "dispositions": feed.lake.dispositions,
        "breaks": feed.lake.image_chain_breaks,
        "quarantine": feed.lake.quarantine,
    }
    new_tables.create(shared["breaks"], table_schema(change.BREAK_COLUMNS), change.BY_WINDOW)
    written = {*done.tables, *shared.values()}
    for table, rule in faults:
        kinds = {"changes": "_changes", "history": "_history", "current": ""}
        names = {kind: lake_name(feed, table, suffix) for kind, suffix in kinds.items()} | shared
        for name in names.values():
            if done.branch not in catalog.load(name).metadata.refs:
                session.sql(f"ALTER TABLE {name} CREATE BRANCH `{done.branch}`")
        places = {kind: f"{name}.branch_{done.branch}" for kind, name in names.items()}
        changes = stored_rows(names["changes"], done.branch)
        update = next(c for c in changes if over.id == c["window_id"] and c["operation"] == "update")
        earlier = stored_rows(names["changes"])[0]
        of = {
            "run": over.id,
            "table": table,
            "update": update["change_id"],
            "earlier": earlier["change_id"],
        }
        for fault in (FAULTS | OF_RECORDS)[rule]:
            statement = fault if isinstance(fault, str) else added(session, places, fault)
            session.sql(statement.format(**places, **of))
        written |= {*names.values()}
    heads = refs.heads(written, done.branch)
    control().windows.finish_stage(feed.feed, over, "reconcile", BuiltSnapshots(done.branch, heads))


def added(session: SparkSession, places: dict[str, str], row: Added) -> str:
    cells = [
        row.values.get(field.name)
        or (f"`{field.name}`" if row.like else f"CAST(NULL AS {field.dataType.simpleString()})")
        for field in session.table(places[row.to]).schema
    ]
    rows = f"FROM {places[row.to]} {row.like}" if row.like else ""
    return f"INSERT INTO {{{row.to}}} SELECT {', '.join(cells)} {rows}"


def test_every_rule_of_a_table_has_its_fault() -> None:
    assert FAULTS.keys() == TABLE_RULES.keys() - {*OF_ARRIVAL}
    assert sorted(rule for audited in AUDITS for rules in audited for rule in rules) == sorted(FAULTS)


@pytest.mark.parametrize("audited", AUDITS, ids=lambda audited: "-".join(map("+".join, audited)))
def test_the_rules_fail(
    spark: SparkSession,
    built: Built,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    audited: tuple[tuple[str, ...], ...],
) -> None:
    session = lake_of(spark, built.state.copy(tmp_path), built.files, monkeypatch)
    feed = feed_of(built.source, monkeypatch)
    faults = [(table, rule) for table, rules in zip(TABLES, audited, strict=True) for rule in rules]
    corrupt(session, feed, built.over, faults)
    with pytest.raises(AuditFailed) as failed:
        audit.run(session, feed, built.over)
    verdicts = {(row.table, row.rule): row for row in control().audits.of_window(feed.feed, built.over.id)}
    page = docs_index(Settings().data_docs, feed.feed, built.over)
    results = "\n".join(file.read_text("utf-8") for file in page.parent.glob("results/**/*.json"))
    for table, rule in faults:
        assert re.search(f"{table}: {rule}: [1-9]", str(failed.value))
        assert [name for name in TABLES if not verdicts[name, rule].success] == [table]
        assert verdicts[table, rule].detail["stops"]
        assert f'"type": "{rule}"' in results


def test_a_record_in_quarantine_without_its_disposition(
    spark: SparkSession, built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = lake_of(spark, built.state.copy(tmp_path), built.files, monkeypatch)
    feed = feed_of(built.source, monkeypatch)
    corrupt(session, feed, built.over, [(TABLE, "records_are_kept")])
    with pytest.raises(AuditFailed, match=r"records_are_kept: 1 violation"):
        audit.run(session, feed, built.over)


def test_nothing_fails_without_a_fault(
    spark: SparkSession, built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = lake_of(spark, built.state.copy(tmp_path), built.files, monkeypatch)
    feed = feed_of(built.source, monkeypatch)
    audit.run(session, feed, built.over)
    rows = control().audits.of_window(feed.feed, built.over.id)
    for table in TABLES:
        assert {row.rule for row in rows if row.table == table} == TABLE_RULES.keys() - {*OF_ARRIVAL}
    assert [row.rule for row in rows if not row.success] == ["source_is_read_on"]


def without_intervals(rows: pa.RecordBatch, table: str) -> pa.RecordBatch:
    """Makes a rule fail in Spark's worker, where the kernel runs."""

    def fails(*_: object) -> NoReturn:
        raise ValueError("the value Ann")

    # A worker has no pytest.
    with mock.patch.object(key_rules, "_interval_forward", fails):
        return key_rules.of_intervals(rows, table)


def test_no_key_is_shown_where_values_are_redacted(
    spark: SparkSession, built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHANGELEDGER_REDACT_VALUES", "true")
    session = lake_of(spark, built.state.copy(tmp_path), built.files, monkeypatch)
    feed = feed_of(built.source, monkeypatch)
    corrupt(session, feed, built.over, [(TABLE, "lsn_width")])

    monkeypatch.setattr(key_rules, "of_intervals", without_intervals)
    with pytest.raises(AuditFailed, match=r"lsn_width: 1 violation.*\n.*key=\*\*\*") as raised:
        audit.run(session, feed, built.over)
    folder = docs_index(Settings().data_docs, feed.feed, built.over).parent
    files = [*folder.glob("**/*.html"), *folder.glob("**/*.json")]
    pages = "\n".join(file.read_text("utf-8") for file in files)
    assert '"key": "***"' in pages
    assert '{"id":' not in pages.replace('\\"', '"').replace("&#34;", '"')
    assert f"{TABLE}: interval_forward: could not be checked: ValueError" in str(raised.value)
    assert "Ann" not in pages + str(raised.value)
