"""What the audit says of its findings: which rule stops a run, and what people see of it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from changeledger.audit import record_sums
from changeledger.audit.conservation import Balance, WindowReads, feed_rules, kept_records, source_rules
from changeledger.audit.gate import RuleResult, Subject, docs_index, document, gate, judge
from changeledger.audit.narrow_rows import CHANGE, NOT_CHECKED, ROWS, RULE, RULES
from changeledger.audit.page import Audit, shown
from changeledger.audit.record_sums import Faulty
from changeledger.audit.rules import TABLE_RULES, Rule, Sum, ledger_keeps, table_rules
from changeledger.audit.suites import Judged
from changeledger.config.feed import Feed
from changeledger.model.errors import AuditFailed
from changeledger.model.window import SourceRead, Window, promised
from changeledger.spark.rows import Workers
from tests.audit.tables import CONTRACT, entries, record
from tests.feeds import feed_of
from tests.spark_jobs import Counter

WINDOW = Window(start=datetime(2026, 8, 7, 16, tzinfo=UTC), end=datetime(2026, 8, 7, 17, tzinfo=UTC))
CRITICAL = {"change_id_unique", "ledger_keeps_everything", "duplicates_leave_one"}
FEED, TABLE = "feed shop_cdc", CONTRACT.table


def of_table(keeps: Sum | None = None) -> list[Rule]:
    return table_rules(CONTRACT, keeps, "error")


def test_what_the_rules_of_a_table_weigh() -> None:
    rules = of_table(Sum("ledger", 0, ""))
    assert [rule.name for rule in rules] == list(TABLE_RULES)
    assert {rule.name for rule in rules if rule.severity == "critical"} == CRITICAL
    assert {rule.column for rule in rules if rule.name.startswith("current_key")} == {"`order`, `rows`"}
    severities = {rule.name: rule.severity for rule in table_rules(CONTRACT, None, "warning", ())}
    assert severities["image_chain"] == "warning"
    assert "ledger_keeps_everything" not in severities, "nothing was published before"


def test_rules_are_asked_of_rows_or_of_sums() -> None:
    rules = [*of_table(Sum("ledger", 0, "")), *of_feed()]
    assert {rule.name for rule in rules if rule.sums is None} == set(RULES)


@pytest.mark.parametrize(("kept", "published", "wrong"), [(3, 3, 0), (2, 3, 1), (4, 3, 1), (None, 3, None)])
def test_a_ledger_that_lost_a_published_row(kept: int | None, published: int, wrong: int | None) -> None:
    assert ledger_keeps("ledger", kept, published).wrong == wrong


def feed(limit: float = 1.0) -> Feed:
    return feed_of("shop_cdc", "dbo.Orders", dialect="debezium", quarantine_limit=limit)


def of_feed(limit: float = 1.0) -> list[Rule]:
    """Of 100 records one is lost and 29 are quarantined, one of these because its pair is missing."""
    balances = [Balance("shop.orders", 100, {"change": 70, "quarantined": 29}, lost=1)]
    lost = {"shop.orders": Faulty(1, 0, ("shop.orders[0] 99 (read 1, accounted for 0: nothing)",))}
    return feed_rules(feed(limit), balances, lost, {"bad_json": 28, "before_without_after": 1})


@pytest.mark.parametrize(("limit", "over"), [(1.0, 0), (0.29, 0), (0.28, 1), (0.0, 29)])
def test_feed_rules(limit: float, over: int) -> None:
    sums = {rule.name: rule.sums for rule in of_feed(limit) if rule.sums is not None}
    (lost,), (quarantined,) = sums["conservation"], sums["quarantine_limit"]
    assert (lost.of, lost.wrong, quarantined.wrong) == ("shop.orders", 1, over)
    assert lost.why.endswith("1 lost, 0 doubled: shop.orders[0] 99 (read 1, accounted for 0: nothing)")
    assert quarantined.why == "28 bad_json, 1 before_without_after"


def test_a_record_that_counts_twice_is_wrong_as_a_lost_one_is() -> None:
    conservation = feed_rules(feed(), [Balance("t", 1, {"change": 2}, doubled=1)], {}, {})[0]
    assert [part.wrong for part in conservation.sums or ()] == [1]


def test_records_that_wait_are_kept_as_such() -> None:
    def sums(*offsets: int) -> list[dict[str, Any]]:
        rows = entries(*((record(offset), "") for offset in offsets))
        return record_sums.sums(rows.combine_chunks().to_batches()[0]).to_pylist()

    sides = {
        "quarantined": (sums(1, 2), sums(2, 1)), "pending": (sums(1, 2), sums(1)),
        "lost and another": (sums(1), sums(2)), "none": ([], []),
    }  # fmt: skip
    asked = kept_records(sides).sums or ()
    assert [row.wrong for row in asked] == [0, 1, 1, 0]
    assert asked[1].why == "2 records are pending, 1 are kept as such"


def test_a_disposition_that_is_none_accounts_for_nothing() -> None:
    """As of a record whose disposition is NULL."""
    (rule, *_) = feed_rules(feed(), [Balance("t", 2, {"change": 1, "(none)": 1})], {}, {})
    assert [row.wrong for row in rule.sums or ()] == [1]


def test_what_a_replay_cannot_read_does_not_hold_back_the_rest() -> None:
    balances = [Balance("t", 4, {"quarantined": 3, "change": 1})]
    rules = feed_rules(feed(0.1), balances, {}, {"unparseable_json": 3}, is_replay=True)
    limit = next(rule for rule in rules if rule.name == "quarantine_limit")
    assert [part.wrong for part in limit.sums or ()] == [0]
    assert "no limit in a replay" in limit.says


def incomplete(
    promised: dict[str, int | None], reads: list[SourceRead], came: dict[str, int]
) -> list[tuple[str, str]]:
    window = WindowReads(promised, reads, {"dbo_orders": "dbo.Orders"}, came)
    complete, _, _ = source_rules(window, [])
    assert complete.severity == "critical"
    return [(total.of, total.why) for total in complete.sums or () if total.wrong]


@pytest.mark.parametrize(
    ("dispositions", "is_empty"),
    [
        ({"quarantined": 3}, True),
        ({"quarantined": 3, "tombstone": 2, "control": 9}, True),
        ({"quarantined": 3, "change": 1}, False),
        ({"quarantined": 3, "pending": 1}, False),
        ({"quarantined": 3, "duplicate": 1}, False),
        ({"control": 9}, False),
        ({}, False),
    ],
)
def test_a_run_of_which_nothing_is_read_says_so(dispositions: dict[str, int], is_empty: bool) -> None:
    balances = [Balance("t", sum(dispositions.values()), dispositions)]
    reasons = {"flattened_event": 2, "unknown_schema": 1} if "quarantined" in dispositions else {}
    says = {rule.name: rule.says for rule in feed_rules(feed(), balances, {}, reasons)}
    for name in ("quarantine_limit", "no_quarantined_records"):
        text = "Nothing of the run could be read: flattened_event, unknown_schema."
        assert (text in says[name]) == is_empty


def test_raw_is_what_the_source_had() -> None:
    reads = [
        SourceRead("t[0]", 5, 4),
        SourceRead("t[1]", 5, 5, before=3),
        SourceRead("t[2]", 1, 1, problem="x"),
        # Raw has a row more than the run has read.
        SourceRead("t[3]", 2, 1),
    ]
    came = {"t[0]": 4, "t[1]": 4, "t[2]": 1, "t[3]": 2}
    promised: dict[str, int | None] = {"t[0]": 5, "t[1]": 5, "t[2]": 1, "t[3]": 2}
    assert incomplete(promised, reads, came) == [
        ("t[1]", "asked for 5, received 4"), ("t[2]", "asked for 1, received 1: x"),
        ("t[3]", "asked for 2, received 2"),
    ]  # fmt: skip
    _, beginning, read_on = source_rules(WindowReads(promised, reads, {}, came), [])
    assert [total.of for total in beginning.sums or () if total.wrong] == ["t[1]"]
    assert read_on.sums == ()


def test_what_the_window_has_and_nobody_asked_for_is_missing() -> None:
    """A window that asked for nothing but has records is not an empty window."""
    assert incomplete({}, [], {}) == []
    (partition,) = incomplete({"t[0]": 6}, [], {})
    assert partition == (
        "t[0]",
        "asked for 6, received 0: the window has 6 offsets of it, but the run asked for 0",
    )
    (shorter,) = incomplete({"t[0]": 6}, [SourceRead("t[0]", 4, 4)], {"t[0]": 4})
    assert shorter[1].endswith(": the window has 6 offsets of it, but the run asked for 4")
    (longer,) = incomplete({"t[0]": 6}, [SourceRead("t[0]", 7, 7)], {"t[0]": 7})
    assert longer[1].endswith(": the window has 6 offsets of it, but the run asked for 7")
    whole = [SourceRead("dbo_orders", 5, 5)]
    assert incomplete({"dbo.Orders": None}, whole, {"dbo_orders": 5}) == []
    (other,) = incomplete({"dbo.Orders": None, "dbo.Parts": None}, whole, {"dbo_orders": 5})
    assert other[0] == "dbo.Parts"


@pytest.mark.parametrize(
    ("start", "end", "sources"),
    [
        ({}, {"t": {"0": 3, "1": 0}}, {"t[0]": 3}),
        ({"t": {"0": 3}}, {"t": {"0": 3, "1": 2}, "u": {"0": 1}}, {"t[1]": 2, "u[0]": 1}),
        ({"dbo.a": "0A", "dbo.b": "0A"}, {"dbo.a": "0A", "dbo.b": "0B", "dbo.c": "0B"}, ["dbo.b", "dbo.c"]),
        ({}, {}, {}),
    ],
)
def test_what_a_window_promises_to_read(start: Any, end: Any, sources: Any) -> None:
    wanted = dict.fromkeys(sources) if isinstance(sources, list) else sources
    assert promised(start, end) == wanted


ADDRESS = f"lake.shop_cdc.dbo_order_lines_changes.branch_{WINDOW.branch}"


def subjects() -> list[Subject]:
    return [
        Subject(FEED, ("lake.shop_cdc.dispositions",), tuple(of_feed())),
        Subject(TABLE, (ADDRESS,), tuple(of_table(Sum("ledger", None, "<b>")))),
        Subject("dbo.quiet", ("lake.shop_cdc.dbo_quiet_changes",), tuple(of_table(Sum("ledger", 0, "")))),
    ]


def narrow_rows() -> list[dict[str, str]]:
    """Returns seven changes, one of which breaks a rule, and further rows."""
    changes = [{"kind": CHANGE, "table": TABLE, "change_id": f"id{n}"} for n in range(7)]
    key = {"key": '{"order":9,"rows":1}', "position": "shop.orders[0] 9"}
    changes[0] |= {**key, "lsn_width": "it is not 10 bytes wide"}
    of_feed = {"kind": "other", "table": FEED, "position": "shop.orders[0] 1"}
    records = [{**of_feed, "no_quarantined_records": f"bad_json: {n}"} for n in range(29)]
    records[0] |= {"no_unpaired_images": "before_without_after"}
    absent = {"kind": RULE, "table": TABLE, "interval_forward": f"{NOT_CHECKED}KeyError: 'absent'"}
    return [*changes, *records, absent]


def judged(
    spark: SparkSession, rows: list[dict[str, str]], of: list[Subject], docs: Path
) -> list[RuleResult]:
    folder = docs_index(docs, "shop_cdc", WINDOW).parent
    results = judge(
        Judged(Workers(lambda: spark).given(pa.Table.from_pylist(rows, ROWS)).frame), WINDOW, of, folder
    )
    document(Audit("shop_cdc", WINDOW, WINDOW.branch, results), of, folder)
    return results


def test_the_gate_names_rules_rows_docs_and_branch(spark: SparkSession, tmp_path: Path) -> None:
    of, docs = subjects(), tmp_path
    judged(spark, [], of, docs)
    # Once more, like a retry.
    verdicts = judged(spark, narrow_rows(), of, docs)

    by_rule = {v.rule: v for v in verdicts if v.table == TABLE}
    assert {v.rule for v in verdicts if v.errored} == {"interval_forward", "ledger_keeps_everything"}
    assert {v.rule for v in verdicts if not v.success} == {
        "conservation", "no_quarantined_records", "no_unpaired_images", "lsn_width", "interval_forward",
        "ledger_keeps_everything",
    }  # fmt: skip
    assert {v.table for v in verdicts if not v.success} == {FEED, TABLE}
    assert by_rule["lsn_width"].checked == 7
    (quarantined,) = (v for v in verdicts if v.rule == "no_quarantined_records")
    assert (quarantined.violations, len(quarantined.samples)) == (29, 20)
    assert not quarantined.stops
    with pytest.raises(AuditFailed) as raised:
        gate(Audit("shop_cdc", WINDOW, WINDOW.branch, verdicts), of, "http://127.0.0.1/data-docs/audit.html")
    message = str(raised.value)
    assert "2 failed rules and 2 that could not be checked" in message
    assert "dbo.Order Lines: lsn_width: 1 violation" in message
    assert 'key={"order":9,"rows":1}, position=shop.orders[0] 9, change_id=id0' in message
    assert "dbo.Order Lines: interval_forward: could not be checked: KeyError: 'absent'" in message
    assert "no_unpaired_images" not in message
    assert "checked: http://127.0.0.1/data-docs/audit.html\n" in message
    assert f"SELECT * FROM {ADDRESS}" in message
    check_pages(docs_index(docs, "shop_cdc", WINDOW).parent, verdicts)


def check_pages(folder: Path, verdicts: list[RuleResult]) -> None:
    assert "rows" in (folder / "index.html").read_text()
    page = (folder / "audit.html").read_text("utf-8")
    assert "4 of" in page
    assert "rules stop the run: nothing is published" in page
    assert "position=shop.orders[0] 9, change_id=id0" in page
    assert "could not be checked: &lt;b&gt;" in page
    # Failed rules of all tables, and only these, precede what can be unfolded.
    failed, held = page.split("<h2>What passed</h2>", 1)
    of_rules = re.compile(r"<td>([a-z_]+)</td><td>[A-Z]")
    assert set(of_rules.findall(failed)) == {v.rule for v in verdicts if not v.success}
    assert of_rules.findall(failed)[-2:] == ["no_quarantined_records", "no_unpaired_images"], "warnings last"
    assert set(of_rules.findall(held)) == {v.rule for v in verdicts if v.success}
    assert f"<b>{FEED}</b>: 2 of 5 rules passed" in held
    linked = re.findall(r'href="(validations/[^"]+)"', page)
    assert len(linked) == 2
    assert all((folder / unquote(address)).is_file() for address in linked)
    pages = [p.read_text() for p in sorted(folder.glob("validations/**/*.html"))]
    assert len(pages) == len(list(folder.glob("results/**/*.json"))) == 2
    together = "\n".join(pages)
    assert "A log sequence number is 10 bytes wide." in together
    assert "it is not 10 bytes wide" in together
    assert "shop.orders[0] 9" in together
    assert "shop.orders: 100 read = 70 change + 29 quarantined; 1 lost, 0 doubled" in together


def test_the_gate_lets_a_clean_run_pass(spark: SparkSession, tmp_path: Path) -> None:
    rules = tuple(of_table())
    of = [Subject(TABLE, (ADDRESS,), rules)]
    verdicts = judged(spark, narrow_rows()[1:7], of, tmp_path)
    assert [v.rule for v in verdicts] == [r.name for r in rules]
    assert all(v.success and v.samples == () for v in verdicts)
    gate(Audit("shop_cdc", WINDOW, WINDOW.branch, verdicts), of, "")
    page = docs_index(tmp_path, "shop_cdc", WINDOW).read_text("utf-8")
    assert "What failed" not in page
    assert f"<b>dbo.Order Lines</b>: {len(rules)} of {len(rules)} rules passed" in page


def test_rows_that_break_rules_are_asked_for_once(spark: SparkSession, tmp_path: Path) -> None:
    """Four rules of two subjects are broken."""
    of, counter = subjects(), Counter(spark)
    judged(spark, narrow_rows()[1:7], of, tmp_path)
    clean = counter.new()
    judged(spark, narrow_rows(), of, tmp_path)
    assert counter.new() == clean + 1


def test_an_expectation_that_cannot_be_evaluated_is_no_pass(spark: SparkSession, tmp_path: Path) -> None:
    of = [Subject(TABLE, (), tuple(of_table()))]
    frame = Workers(lambda: spark).nothing(ROWS).frame.drop("lsn_width")
    verdicts = {v.rule: v for v in judge(Judged(frame), WINDOW, of, tmp_path)}
    assert verdicts["lsn_width"].errored
    assert verdicts["lsn_width"].stops


def test_offending_rows_are_shown_for_people() -> None:
    offence = {"key": {"id": 1}, "sort_key": b"\x00\xab", "source_position": None, "change_ids": ["a", "b"]}
    assert shown(offence) == "key=(id=1), sort_key=0x00AB, change_ids=[a, b]"
