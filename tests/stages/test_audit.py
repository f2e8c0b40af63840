"""What the audit says of its findings: which rule stops a run, and what people see of it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from changeledger.audit.conservation import Balance, WindowReads, feed_rules, source_rules
from changeledger.audit.findings import Finding
from changeledger.audit.gate import Subject, docs_index, gate, judge, shown
from changeledger.audit.record_sums import Faulty
from changeledger.audit.rules import Rule, ledger_keeps, table_rules
from changeledger.config.feed import Feed
from changeledger.model import change
from changeledger.model.errors import AuditFailed
from changeledger.model.window import SourceRead, Window, promised
from tests.audit.tables import CONTRACT, key, record

WINDOW = Window(start=datetime(2026, 8, 7, 16, tzinfo=UTC), end=datetime(2026, 8, 7, 17, tzinfo=UTC))
CRITICAL = {"change_id_unique", "ledger_keeps_everything", "duplicates_leave_one"}
NAMES = (
    "mask_agrees_with_images", "operation_has_its_images", "key_not_null", "lsn_width", "change_id_unique",
    "order_strict", "ledger_keeps_everything", "duplicates_leave_one", "interval_forward",
    "one_open_interval", "current_equals_open_history", "current_key_unique", "current_key_not_null",
    "image_chain",
)  # fmt: skip


def of_table(**found: Finding) -> list[Rule]:
    return table_rules(CONTRACT, {name: Finding(0, 7) for name in NAMES} | found, "error")


def test_what_the_rules_of_a_table_weigh() -> None:
    rules = of_table()
    assert [rule.name for rule in rules] == list(NAMES)
    assert {rule.name for rule in rules if rule.severity == "critical"} == CRITICAL
    assert {rule.column for rule in rules if rule.name.startswith("current_key")} == {"`order`, `rows`"}
    (chain,) = table_rules(CONTRACT, {"image_chain": Finding(0)}, "warning")
    assert chain.severity == "warning"


@pytest.mark.parametrize(
    ("kept", "published", "violations"), [(3, 3, 0), (2, 3, 1), (4, 3, 1), (None, 3, None)]
)
def test_a_ledger_that_lost_a_published_row(kept: int | None, published: int, violations: int | None) -> None:
    found = ledger_keeps(kept, published)
    assert found.violations == violations
    assert (found.error is None) == (kept is not None)
    if violations:
        assert found.samples == ({"kept_rows": kept, "published_rows": published},)


def feed(limit: float = 1.0) -> Feed:
    return Feed.model_validate(
        {
            "feed": "shop_cdc", "dialect": "debezium", "database": "shop", "connection": "shop",
            "source": {"topics": ["shop.*"]}, "tables": [{"table": "dbo.Orders"}], "quarantine_limit": limit,
        }
    )  # fmt: skip


def of_feed(limit: float = 1.0) -> list[Rule]:
    """Of 100 records one is lost, 29 are quarantined, one of them for its missing pair."""
    balances = [Balance("shop.orders", 100, {"change": 70, "quarantined": 29}, lost=1)]
    lost = {"source_position": record(99), "read": 1, "accounted": 0, "dispositions": []}
    row: dict[str, Any] = {
        "table": "dbo.Orders",
        "source_position": record(1),
        "reason": "bad_json",
        "detail": "",
    }
    found = {
        change.QUARANTINED: Finding(29, samples=(row,)),
        change.INCOMPATIBLE_SHAPE: Finding(0),
        change.BEFORE_WITHOUT_AFTER: Finding(1, samples=({**row, "reason": change.BEFORE_WITHOUT_AFTER},)),
    }
    return feed_rules(feed(limit), balances, {"shop.orders": Faulty(1, 0, (lost,))}, found)


@pytest.mark.parametrize(("limit", "over"), [(1.0, 0), (0.29, 0), (0.28, 1), (0.0, 29)])
def test_feed_rules(limit: float, over: int) -> None:
    rules = of_feed(limit)
    assert {rule.name: rule.finding.violations for rule in rules} == {
        "conservation": 1,
        "quarantine_limit": over,
        "no_quarantined_records": 29,
        "shapes_fit_contracts": 0,
        "no_unpaired_images": 1,
    }
    (lost,) = rules[0].finding.samples
    assert (lost["source_position"]["offset"], lost["read"], lost["accounted"]) == (99, 1, 0)
    assert bool(rules[1].finding.samples) == bool(over)


def incomplete(
    promised: dict[str, int | None], reads: list[SourceRead], came: dict[str, int]
) -> list[dict[str, Any]]:
    window = WindowReads(promised, reads, {"dbo_orders": "dbo.Orders"}, came)
    complete, _, _ = source_rules(window, [])
    assert complete.severity == "critical"
    assert complete.finding.violations == len(complete.finding.samples)
    return list(complete.finding.samples)


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
    rows = tuple({"reason": reason} for reason in ("flattened_event", "unknown_schema", "flattened_event"))
    found = {
        change.QUARANTINED: Finding(dispositions.get("quarantined", 0), samples=rows),
        change.INCOMPATIBLE_SHAPE: Finding(0),
        change.BEFORE_WITHOUT_AFTER: Finding(0),
    }
    says = {rule.name: rule.says for rule in feed_rules(feed(), balances, {}, found)}
    for name in ("quarantine_limit", "no_quarantined_records"):
        text = "Nothing of the run could be read: flattened_event, unknown_schema."
        assert (text in says[name]) == is_empty


def test_raw_is_what_the_source_had() -> None:
    reads = [
        SourceRead("t[0]", 5, 4),
        SourceRead("t[1]", 5, 5, before=3),
        SourceRead("t[2]", 1, 1, problem="x"),
    ]
    came = {"t[0]": 4, "t[1]": 4, "t[2]": 1}
    promised: dict[str, int | None] = {"t[0]": 5, "t[1]": 5, "t[2]": 1}
    assert incomplete(promised, reads, came) == [
        {"source": "t[1]", "asked": 5, "received": 4, "problem": ""},
        {"source": "t[2]", "asked": 1, "received": 1, "problem": "x"},
    ]
    _, beginning, read_on = source_rules(WindowReads(promised, reads, {}, came), [])
    assert beginning.finding.samples == ({"source": "t[1]", "removed": 3},)
    assert read_on.finding.violations == 0


def test_what_the_window_has_and_nobody_asked_for_is_missing() -> None:
    """Also where nothing at all was asked for: that is no window without records."""
    assert incomplete({}, [], {}) == []
    (partition,) = incomplete({"t[0]": 6}, [], {})
    assert (partition["source"], partition["asked"]) == ("t[0]", 6)
    (shorter,) = incomplete({"t[0]": 6}, [SourceRead("t[0]", 4, 4)], {"t[0]": 4})
    assert shorter["problem"] == "the window has 6 offsets of it, and asked for 4"
    whole = [SourceRead("dbo_orders", 5, 5)]
    assert incomplete({"dbo.Orders": None}, whole, {"dbo_orders": 5}) == []
    (other,) = incomplete({"dbo.Orders": None, "dbo.Parts": None}, whole, {"dbo_orders": 5})
    assert other["source"] == "dbo.Parts"


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


def subjects() -> list[Subject]:
    row = {
        "key": key(9),
        "change_id": "id9",
        "operation": "insert",
        "flags": [],
        "source_position": record(9),
    }
    width = Finding(1, 7, (row,))
    lines = [rule for rule in of_table(lsn_width=width) if rule.name != "ledger_keeps_everything"]
    absent = Finding(None, error="KeyError: 'absent'")
    lines.append(Rule("absent_column", "absent", "It costs $5 & <b>more</b>.", absent))
    return [
        Subject("shop_cdc", ("lake.shop_cdc.dispositions",), tuple(of_feed())),
        Subject(CONTRACT.table, ("lake.shop_cdc.dbo_order_lines_changes",), tuple(lines)),
    ]


def test_the_gate_names_rules_rows_docs_and_branch(tmp_path: Path) -> None:
    judged, docs = subjects(), tmp_path
    judge("shop_cdc", WINDOW, WINDOW.branch, judged, docs, redact=True)
    hidden = docs_index(docs, "shop_cdc", WINDOW).read_text("utf-8")
    assert "key=***, change_id=id9" in hidden
    assert "order=9" not in hidden
    # Again, as a retry does.
    verdicts = judge("shop_cdc", WINDOW, WINDOW.branch, judged, docs)

    by_rule = {v.rule: v for v in verdicts}
    assert {v.rule for v in verdicts if v.errored} == {"absent_column"}
    assert {v.rule for v in verdicts if not v.success} == {
        "conservation", "no_quarantined_records", "no_unpaired_images", "lsn_width", "absent_column",
    }  # fmt: skip
    assert by_rule["lsn_width"].checked == 7
    assert not by_rule["no_unpaired_images"].stops
    with pytest.raises(AuditFailed) as raised:
        gate("shop_cdc", WINDOW, WINDOW.branch, judged, verdicts, "http://127.0.0.1/data-docs/audit.html")
    message = str(raised.value)
    assert "2 failed rules and 1 that could not be checked" in message
    assert "dbo.Order Lines: lsn_width: 1 violation" in message
    assert "key=(order=9, rows=1), change_id=id9" in message
    assert "dbo.Order Lines: absent_column: could not be checked: KeyError: 'absent'" in message
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
    failed, held = page.split("<h2>What passed</h2>", 1)
    of_rules = re.compile(r"<td>([a-z_]+)</td><td>[A-Z]")
    assert set(of_rules.findall(failed)) == {v.rule for v in verdicts if not v.success}
    assert of_rules.findall(failed)[-2:] == ["no_quarantined_records", "no_unpaired_images"], "warnings last"
    assert set(of_rules.findall(held)) == {v.rule for v in verdicts if v.success}
    assert "<b>shop_cdc</b>: 2 of 5 rules passed" in held
    linked = re.findall(r'href="(validations/[^"]+)"', page)
    assert len(linked) == 2
    assert all((folder / unquote(address)).is_file() for address in linked)
    pages = [p.read_text() for p in sorted(folder.glob("validations/**/*.html"))]
    assert len(pages) == len(list(folder.glob("results/**/*.json"))) == 2
    together = "\n".join(pages)
    assert "A log sequence number is 10 bytes wide. (1 violation of 7 rows)" in together
    assert "It costs $5 &amp; &lt;b&gt;more&lt;/b&gt;. (NOT CHECKED: KeyError: 'absent'" in together
    assert "shop.orders: 100 read = 70 change + 29 quarantined; 1 lost, 0 doubled" in together


def test_the_gate_lets_a_clean_run_pass(tmp_path: Path) -> None:
    rules = tuple(of_table())
    judged = [Subject(CONTRACT.table, ("lake.shop_cdc.dbo_order_lines_changes",), rules)]
    verdicts = judge("shop_cdc", WINDOW, WINDOW.branch, judged, tmp_path)
    assert [v.rule for v in verdicts] == [r.name for r in rules]
    assert all(v.success and v.samples == () for v in verdicts)
    gate("shop_cdc", WINDOW, WINDOW.branch, judged, verdicts, "")
    page = docs_index(tmp_path, "shop_cdc", WINDOW).read_text("utf-8")
    assert "What failed" not in page
    assert f"<b>dbo.Order Lines</b>: {len(rules)} of {len(rules)} rules passed" in page


def test_offending_rows_are_shown_for_people() -> None:
    offence = {"key": {"id": 1}, "sort_key": b"\x00\xab", "source_position": None, "change_ids": ["a", "b"]}
    assert shown(offence) == "key=(id=1), sort_key=0x00AB, change_ids=[a, b]"
