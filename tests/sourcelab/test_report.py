"""The demo's report shows what was found, and fails if something does not hold."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from changeledger.config.settings import Settings
from sourcelab.airflow_home import TaskRun
from sourcelab.report import NO_TABLE, FeedReport, Report, TableReport, show

TABLE = "dbo.customers"
STAGES = {
    "shop_cdc": [TaskRun("extract", "success", 2.5), TaskRun("audit", "failed", 1.25)],
}


def good() -> Report:
    customers = TableReport(
        records=Counter(change=1020, paired=200, quarantined=1),
        operations=Counter(insert=820, update=200),
        current=800,
        history=1030,
        ledger=1040,
        is_truth=True,
    )
    beside = TableReport(records=Counter(control=4))
    feed = FeedReport(
        "shop_cdc",
        1225,
        {TABLE: customers, NO_TABLE: beside},
        12,
        [],
        Path("/docs/index.html"),
        {TABLE: "proven"},
    )
    return Report([feed], [], {TABLE: True})


def shown(report: Report) -> str:
    console = Console(record=True, width=80, file=StringIO())
    show(console, report, STAGES, Settings(home=Path("/lake")))
    return console.export_text()


def test_all_that_matters_is_shown() -> None:
    text = shown(good())
    assert "shop_cdc: 1225 records read, 1225 accounted for" in text
    lines = [line for line in text.splitlines() if TABLE in line]
    assert lines[0].split() == [
        TABLE, "1,221", "1,020", "200", "·", "1",
    ]  # fmt: skip
    assert lines[1].split() == [
        TABLE, "820", "200", "800", "1,030", "1,040", "yes", "yes",
    ]  # fmt: skip
    assert "12 of 12 rules passed" in text
    assert "1 of 1 tables match the source" in text
    assert "2.5" in text
    assert "failed" in text
    assert "/docs/index.html" in text
    assert 'CHANGELEDGER_HOME=/lake .venv/bin/changeledger query "SELECT' in text


def test_a_table_without_rows_of_its_own_is_not_called_published() -> None:
    assert sum(NO_TABLE in line for line in shown(good()).splitlines()) == 1


def test_good_figures_hold() -> None:
    assert good().holds


def corrupted(**feed: object) -> Report:
    report = good()
    return replace(report, feeds=[replace(report.feeds[0], **feed)])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "report",
    [
        replace(good(), missing=["shop_debezium"]),
        replace(good(), equal={TABLE: False}),
        corrupted(records=1226),
        corrupted(broken=["dbo.customers: unique change ids"]),
        corrupted(rules=0),
        corrupted(proofs={TABLE: "drift"}),
        corrupted(proofs={}),
        corrupted(tables={TABLE: replace(good().feeds[0].tables[TABLE], is_truth=False)}, records=1221),
    ],
    ids=[
        "a feed without a release",
        "feeds differ",
        "a lost record",
        "a rule",
        "no rule at all",
        "drift",
        "no proof",
        "not the truth",
    ],
)
def test_whatever_is_wrong_fails(report: Report) -> None:
    assert not report.holds


def test_what_is_wrong_is_reported() -> None:
    report = corrupted(broken=["dbo.customers: unique change ids"])
    text = shown(replace(report, missing=["shop_debezium"], equal={TABLE: False}))
    assert "failed: dbo.customers: unique change ids" in text
    assert "shop_debezium: nothing was published" in text
    assert "NO" in text
