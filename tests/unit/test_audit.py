"""The rules of the audit: a clean run passes all of them, and each finds its own fault."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from changeledger import change
from changeledger.audit.conservation import Balance, balance, duplicates_leave_one, feed_rules
from changeledger.audit.counting import sample, tally
from changeledger.audit.gate import Subject, docs_index, gate, judge, shown
from changeledger.audit.rules import Rule, ledger_rules, published_rules
from changeledger.config import Feed
from changeledger.contract import Column, Contract
from changeledger.errors import AuditFailed
from changeledger.window import Window

CONTRACT = Contract(
    table="dbo.Order Lines",
    columns=(
        Column(name="order", type="int", ordinal=1, nullable=False, key_position=1),
        # Names that the rules use themselves, or that need quoting.
        Column(name="rows", type="int", ordinal=2, nullable=False, key_position=2),
        Column(name="unit.price", type="decimal(18,4)", ordinal=3),
    ),
)
WINDOW = Window(start=datetime(2026, 8, 7, 16, tzinfo=UTC), end=datetime(2026, 8, 7, 17, tzinfo=UTC))
RUN = WINDOW.id
AT = datetime(2026, 8, 7, 16, 25)


def ddl(columns: list[tuple[str, str]]) -> str:
    return ", ".join(f"{change.quoted(name)} {kind}" for name, kind in columns)


def record(offset: int | None, source: str | None = "shop.orders") -> tuple[Any, ...]:
    return (source, 0, offset, None)


def ledger_row(at: int, **members: Any) -> dict[str, Any]:
    """A correct insert of key (at, 1)."""
    return {
        "change_id": f"id{at}",
        "operation": "insert",
        "key": (at, 1),
        "after": (at, 1, None),
        "commit_lsn": bytes(10),
        "change_lsn": None,
        "sort_key": bytes([at]),
        "committed_at": AT,
        "flags": [],
        "record": record(at),
        "run_id": RUN,
        **members,
    }


def ledger(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    columns = change.ledger_columns(CONTRACT)
    return spark.createDataFrame([tuple(r.get(n) for n, _ in columns) for r in rows], ddl(columns))


CLEAN = (
    ledger_row(1),
    ledger_row(2, operation="snapshot"),
    ledger_row(3, operation="update", before=(3, 1, None), changed=["unit.price"]),
    ledger_row(4, operation="update", flags=[change.BEFORE_UNKNOWN]),
    ledger_row(5, operation="delete", before=(5, 1, None), after=None),
    ledger_row(6, operation="truncate", key=None, after=None),
)

LEDGER_FAULTS = [
    ("mask_agrees_with_images", {"flags": [change.MASK_DISAGREES]}),
    ("operation_has_its_images", {"after": None}),
    ("operation_has_its_images", {"after": (None, None, None)}),
    ("operation_has_its_images", {"before": (9, 1, None)}),
    ("operation_has_its_images", {"operation": "snapshot", "before": (9, 1, None)}),
    ("operation_has_its_images", {"operation": "delete", "before": (9, 1, None)}),
    ("operation_has_its_images", {"operation": "delete", "after": None}),
    ("operation_has_its_images", {"operation": "update"}),
    ("operation_has_its_images", {"operation": "update", "flags": None}),
    ("operation_has_its_images", {"operation": "update", "before": (9, 1, None), "after": None}),
    ("operation_has_its_images", {"operation": "merge"}),
    ("key_not_null", {"key": None}),
    ("key_not_null", {"key": (9, None)}),
    ("key_not_null", {"change_id": None}),
    ("key_not_null", {"sort_key": None}),
    ("key_not_null", {"committed_at": None}),
    ("key_not_null", {"record": None}),
    ("lsn_width", {"commit_lsn": bytes(9)}),
    ("lsn_width", {"change_lsn": bytes(11)}),
    ("change_id_unique", {"change_id": "id1"}),
    ("change_id_unique", {"change_id": "published"}),
    ("order_strict", {"key": (1, 1), "sort_key": b"\x01"}),
]


def violations(rules: list[Rule]) -> dict[str, int | None]:
    return {name: t.violations for name, t in tally(rules).items()}


def published_ids(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("published",)], "change_id string")


def test_a_clean_ledger_has_no_violations(spark: SparkSession) -> None:
    counts = tally(ledger_rules(CONTRACT, ledger(spark, *CLEAN), published_ids(spark), published_ids(spark)))
    assert {t.violations for t in counts.values()} == {0}
    assert counts["key_not_null"].checked == len(CLEAN)


def test_an_empty_window_has_no_violations(spark: SparkSession) -> None:
    assert set(violations(ledger_rules(CONTRACT, ledger(spark), published_ids(spark), None)).values()) == {0}


@pytest.mark.parametrize(("name", "fault"), LEDGER_FAULTS)
def test_a_fault_in_the_ledger_is_found_by_its_rule(
    spark: SparkSession, name: str, fault: dict[str, Any]
) -> None:
    changes = ledger(spark, *CLEAN, ledger_row(9, **fault))
    rules = ledger_rules(CONTRACT, changes, published_ids(spark), published_ids(spark))
    assert violations(rules) == {r.name: int(r.name == name) for r in rules}
    assert len(sample(next(r for r in rules if r.name == name), 20)) == 1


def test_a_ledger_that_lost_a_published_row_is_found(spark: SparkSession) -> None:
    nothing = published_ids(spark).where("false")
    found = violations(ledger_rules(CONTRACT, ledger(spark, *CLEAN), nothing, published_ids(spark)))
    assert {name for name, count in found.items() if count} == {"ledger_keeps_everything"}


def row_record(row: str, number: int | None = None) -> tuple[Any, ...]:
    """Of a raw row of a change table."""
    return ("orders__ct", None, number, row.encode())


def again(record: tuple[Any, ...], change_id: str | None) -> tuple[Any, ...]:
    return (RUN, CONTRACT.table, record, change.DUPLICATE, "delivered_again", change_id)


DUPLICATES = [
    # Of a change of this run, of a published one, and of the delete that is now half of an update.
    again(record(1), "id1"),
    again(record(2), "published"),
    again(record(3), "deleted"),
    # The second rows of an update that stands twice.
    again(row_record("1B", 1), None),
    again(row_record("1U", 1), None),
    # The update itself was published before, so its first rows are duplicates, too.
    again(row_record("2B"), "published"),
    again(row_record("2B", 1), None),
    # Nothing followed the first one.
    (RUN, CONTRACT.table, row_record("3B"), change.QUARANTINED, change.BEFORE_WITHOUT_AFTER, None),
    again(row_record("3B", 1), None),
    # A segment of a split message names no change.
    (RUN, CONTRACT.table, record(4), change.DUPLICATE, "segment_again", "segments 1, 2 of x"),
]


def left_by_duplicates(spark: SparkSession, *more: tuple[Any, ...]) -> list[dict[str, Any]]:
    whole = ledger(
        spark,
        ledger_row(1, record=row_record("1U"), paired_record=row_record("1B")),
        ledger_row(2, change_id="published", run_id="earlier"),
        ledger_row(3, change_id="inserted", paired_change_id="deleted", run_id="earlier"),
    )
    told = spark.createDataFrame([*DUPLICATES, *more], ddl(list(change.DISPOSITION_COLUMNS)))
    rule = duplicates_leave_one(told, whole)
    assert rule.severity == "critical"
    found = sample(rule, 20)
    assert tally([rule])[rule.name].violations == len(found)
    return found


def test_duplicates_of_a_change_that_is_there_are_no_loss(spark: SparkSession) -> None:
    assert left_by_duplicates(spark) == []


@pytest.mark.parametrize(
    "lost", [again(record(9), "id9"), again(row_record("9I"), "id9"), again(row_record("9U", 1), None)]
)
def test_duplicates_that_leave_no_change_are_found(spark: SparkSession, lost: tuple[Any, ...]) -> None:
    (found,) = left_by_duplicates(spark, lost)
    assert tuple(found["record"].values()) == lost[2]


def row(at: int, to: datetime | None = None, **members: Any) -> dict[str, Any]:
    """A history row of key (at, 1), open unless it has an end."""
    closed = None if to is None else b"\x02"
    return {
        "order": at, "rows": 1, "_change_id": f"id{at}", "_sort_key": b"\x01", "_run_id": RUN,
        "_valid_from": AT, "_valid_to": to, "_next_sort_key": closed, "_is_deleted": False, **members,
    }  # fmt: skip


def published(
    spark: SparkSession, history: list[dict[str, Any]], current: list[dict[str, Any]]
) -> list[Rule]:
    def frame(columns: list[tuple[str, str]], rows: list[dict[str, Any]]) -> DataFrame:
        return spark.createDataFrame([tuple(r.get(n) for n, _ in columns) for r in rows], ddl(columns))

    return published_rules(
        CONTRACT,
        RUN,
        frame(change.history_columns(CONTRACT), history),
        frame(change.current_columns(CONTRACT), current),
    )


HISTORY = [row(1, AT), row(1), row(2), row(3, _is_deleted=True), row(4, _run_id="earlier")]
CURRENT = [row(1), row(2), row(4)]
PUBLISHED_FAULTS = [
    ("interval_forward", [*HISTORY, row(2, datetime(2026, 8, 7, 16, 24))], CURRENT),
    ("interval_forward", [*HISTORY, row(2, AT, _next_sort_key=b"\x01")], CURRENT),
    ("one_open_interval", [*HISTORY, row(1, _is_deleted=True)], CURRENT),
    # The second one is of an earlier run: the key is this run's all the same.
    ("one_open_interval", [*HISTORY, row(2, _run_id="earlier", _is_deleted=True)], CURRENT),
    ("current_equals_open_history", HISTORY, CURRENT[:2]),
    ("current_key_unique", [*HISTORY, row(5)], [*CURRENT, row(2)]),
    ("current_key_not_null", [*HISTORY, row(5)], [*CURRENT, row(5, rows=None)]),
]


def test_clean_published_tables_have_no_violations(spark: SparkSession) -> None:
    assert set(violations(published(spark, HISTORY, CURRENT)).values()) == {0}


@pytest.mark.parametrize(("name", "history", "current"), PUBLISHED_FAULTS)
def test_a_fault_in_what_would_be_published_is_found_by_its_rule(
    spark: SparkSession, name: str, history: list[dict[str, Any]], current: list[dict[str, Any]]
) -> None:
    rules = published(spark, history, current)
    assert violations(rules) == {r.name: int(r.name == name) for r in rules}
    assert len(sample(next(r for r in rules if r.name == name), 20)) == 1


def records(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame([(r,) for r in rows], f"record {change.RECORD_TYPE}")


def accounts(spark: SparkSession, *rows: tuple[tuple[Any, ...], str]) -> DataFrame:
    return spark.createDataFrame(list(rows), f"record {change.RECORD_TYPE}, disposition string")


def test_conservation_tells_lost_and_doubled_records_per_source(spark: SparkSession) -> None:
    raw = records(spark, *(record(n) for n in range(4)), record(0, "shop.lines"))
    accounted = accounts(
        spark,
        (record(0), change.CHANGE),
        (record(1), change.CHANGE),
        (record(1), change.DUPLICATE),
        (record(2), change.TOMBSTONE),
        (record(7), change.CHANGE),
        (record(0, "shop.lines"), change.QUARANTINED),
    )
    assert balance(raw, accounted) == [
        Balance("shop.lines", 1, {"quarantined": 1}),
        # 3 is lost; 1 is there twice, and 7 was never read.
        Balance("shop.orders", 4, {"change": 3, "duplicate": 1, "tombstone": 1}, lost=1, doubled=2),
    ]


def test_a_lost_record_and_a_doubled_one_do_not_make_up_for_each_other(spark: SparkSession) -> None:
    raw = records(spark, record(1), record(2))
    accounted = accounts(spark, (record(1), change.CHANGE), (record(1), change.CHANGE))
    assert balance(raw, accounted) == [Balance("shop.orders", 2, {"change": 2}, lost=1, doubled=1)]


def feed(limit: float = 1.0) -> Feed:
    return Feed.model_validate(
        {
            "feed": "shop_cdc", "dialect": "debezium", "database": "shop", "connection": "shop",
            "source": {"topics": ["shop.*"]}, "tables": [{"table": "dbo.Orders"}], "quarantine_limit": limit,
        }
    )  # fmt: skip


@pytest.fixture(scope="session")
def unbalanced(spark: SparkSession) -> tuple[DataFrame, DataFrame, DataFrame]:
    """Of 100 records one is lost, 29 are quarantined, one of them for its missing pair."""
    raw = records(spark, *(record(n) for n in range(100)))
    quarantined = [(record(n), change.QUARANTINED) for n in range(29)]
    accounted = accounts(spark, *quarantined, *((record(n), change.CHANGE) for n in range(29, 99)))
    reasons = [change.BEFORE_WITHOUT_AFTER] + ["bad_json"] * 28
    dispositions = spark.createDataFrame(
        [(RUN, "dbo.Orders", r, d, reasons[n], "") for n, (r, d) in enumerate(quarantined)],
        ddl(list(change.DISPOSITION_COLUMNS)),
    )
    return raw, accounted, dispositions


@pytest.mark.parametrize(("limit", "over"), [(1.0, 0), (0.29, 0), (0.28, 1), (0.0, 29)])
def test_feed_rules(unbalanced: tuple[DataFrame, DataFrame, DataFrame], limit: float, over: int) -> None:
    raw, accounted, dispositions = unbalanced
    rules = feed_rules(feed(limit), balance(raw, accounted), raw, accounted, dispositions)
    assert violations(rules) == {
        "conservation": 1,
        "quarantine_limit": over,
        "shapes_fit_contracts": 0,
        "no_unpaired_images": 1,
    }
    (lost,) = sample(rules[0], 20)
    assert (lost["record"]["offset"], lost["read"], lost["accounted"]) == (99, 1, 0)


@pytest.fixture(scope="session")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data_docs")


def subjects(spark: SparkSession, unbalanced: tuple[DataFrame, DataFrame, DataFrame]) -> list[Subject]:
    raw, accounted, dispositions = unbalanced
    changes = ledger(spark, *CLEAN, ledger_row(9, commit_lsn=bytes(9)))
    absent = Rule("absent_column", "absent", "It costs $5 & <b>more</b>.", changes, F.col("absent").isNull())
    lines = (*ledger_rules(CONTRACT, changes, published_ids(spark), None), absent)
    books = feed_rules(feed(), balance(raw, accounted), raw, accounted, dispositions)
    return [
        Subject("shop_cdc", ("lake.shop_cdc.dispositions",), tuple(books)),
        Subject(CONTRACT.table, ("lake.shop_cdc.dbo_order_lines_changes",), lines),
    ]


def test_the_gate_names_rules_rows_docs_and_branch(
    spark: SparkSession, unbalanced: tuple[DataFrame, DataFrame, DataFrame], docs: Path
) -> None:
    judged = subjects(spark, unbalanced)
    judge("shop_cdc", WINDOW, judged, docs, redact=True)
    hidden = docs_index(docs, "shop_cdc", WINDOW).read_text("utf-8")
    assert "key=***, change_id=id9" in hidden
    assert "order=9" not in hidden
    # Again, as a retry does.
    verdicts = judge("shop_cdc", WINDOW, judged, docs)

    by_rule = {v.rule: v for v in verdicts}
    assert {v.rule for v in verdicts if v.errored} == {"absent_column"}
    assert {v.rule for v in verdicts if not v.success} == {
        "conservation", "no_unpaired_images", "lsn_width", "absent_column",
    }  # fmt: skip
    assert by_rule["lsn_width"].checked == len(CLEAN) + 1
    assert not by_rule["no_unpaired_images"].stops
    with pytest.raises(AuditFailed) as raised:
        gate("shop_cdc", WINDOW, WINDOW.branch, judged, verdicts, "http://127.0.0.1/data-docs/audit.html")
    message = str(raised.value)
    assert "2 rules violated and 1 that could not be checked" in message
    assert "dbo.Order Lines: lsn_width: 1 violations" in message
    assert "key=(order=9, rows=1), change_id=id9" in message
    assert "dbo.Order Lines: absent_column: could not be checked: [UNRESOLVED_COLUMN" in message
    assert "no_unpaired_images" not in message
    assert "checked: http://127.0.0.1/data-docs/audit.html\n" in message
    assert f"SELECT * FROM lake.shop_cdc.dbo_order_lines_changes.branch_{WINDOW.branch}" in message

    folder = docs_index(docs, "shop_cdc", WINDOW).parent
    assert "dbo.Order Lines" in (folder / "index.html").read_text()
    page = docs_index(docs, "shop_cdc", WINDOW).read_text("utf-8")
    assert "3 of" in page
    assert "rules stop the run: nothing is published" in page
    assert "key=(order=9, rows=1), change_id=id9" in page
    assert "It costs $5 &amp; &lt;b&gt;more&lt;/b&gt;." in page
    # What failed, of all tables, and only that, stands before what can be folded out.
    failed, held = page.split("<details>", 1)
    of_rules = re.compile(r"<td>([a-z_]+)</td><td>[A-Z]")
    assert set(of_rules.findall(failed)) == {v.rule for v in verdicts if not v.success}
    assert of_rules.findall(failed)[-1] == "no_unpaired_images", "what only is reported comes last"
    assert set(of_rules.findall(held)) == {v.rule for v in verdicts if v.success}
    assert "<b>shop_cdc</b>: 2 of 4 rules hold" in held
    linked = re.findall(r'href="(validations/[^"]+)"', page)
    assert len(linked) == 2
    assert all((folder / unquote(address)).is_file() for address in linked)
    pages = [p.read_text() for p in sorted(folder.glob("validations/**/*.html"))]
    assert len(pages) == len(list(folder.glob("results/**/*.json"))) == 2
    together = "\n".join(pages)
    assert "A log sequence number is 10 bytes wide. (1 violations of 7 rows)" in together
    assert "It costs $5 &amp; &lt;b&gt;more&lt;/b&gt;. (NOT CHECKED: [UNRESOLVED_COLUMN" in together
    assert "shop.orders: 100 read = 70 change + 29 quarantined; 1 lost, 0 doubled" in together


def test_the_gate_lets_a_clean_run_pass(spark: SparkSession, tmp_path: Path) -> None:
    rules = tuple(ledger_rules(CONTRACT, ledger(spark, *CLEAN), published_ids(spark), None))
    judged = [Subject(CONTRACT.table, ("lake.shop_cdc.dbo_order_lines_changes",), rules)]
    verdicts = judge("shop_cdc", WINDOW, judged, tmp_path)
    assert [v.rule for v in verdicts] == [r.name for r in rules]
    assert all(v.success and v.samples == () for v in verdicts)
    gate("shop_cdc", WINDOW, WINDOW.branch, judged, verdicts, "")
    page = docs_index(tmp_path, "shop_cdc", WINDOW).read_text("utf-8")
    assert "What failed" not in page
    assert f"<b>dbo.Order Lines</b>: {len(rules)} of {len(rules)} rules hold" in page


def test_an_error_of_every_rule_is_not_the_rules_fault(spark: SparkSession) -> None:
    rule = Rule("absent_column", "absent", "It is there.", ledger(spark), F.col("absent").isNull())
    with pytest.raises(Exception, match="absent"):
        tally([rule])


def test_offending_rows_are_shown_for_people() -> None:
    offence = {"key": {"id": 1}, "sort_key": b"\x00\xab", "record": None, "change_ids": ["a", "b"]}
    assert shown(offence) == "key=(id=1), sort_key=0x00AB, change_ids=[a, b]"
