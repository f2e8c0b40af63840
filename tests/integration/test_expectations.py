"""Expectations that users add to a table stop, warn and are tolerated like the audit's own rules."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeledger.audit.gate import docs_index
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.control.tables.releases import AuditRow
from changeledger.model.errors import AuditFailed
from changeledger.model.window import Request
from changeledger.stages import audit
from sourcelab.services import Postgres
from tests.lake_states import lake_of
from tests.one_release import OneRelease, feed_of

pytestmark = pytest.mark.integration

TABLE = "dbo.customers"
HOLDS = [
    {"expect_column_values_to_not_be_null": {"column": "id"}, "severity": "critical"},
    {"expect_column_values_to_be_in_set": {"column": "operation", "value_set": ["insert", "update",
     "delete"]}, "on": "changes", "name": "known_operations"},
    {"expect_table_row_count_to_be_between": {"min_value": 1}, "scope": "all", "on": "history"},
    {"sql": "SELECT c.* FROM current c LEFT JOIN history h ON c.id = h.id WHERE h.id IS NULL",
     "name": "has_history"},
]  # fmt: skip
FAILS = {"expect_column_values_to_be_between": {"column": "id", "max_value": -1}, "note": "Ids are below 0."}
RULE = "expect_column_values_to_be_between_id"
FAILING = (FAILS, {"sql": "SELECT * FROM current WHERE id > 0", "name": "ids_below_zero"})


Judge = Callable[..., tuple[AuditFailed | None, dict[str, AuditRow], str]]


@pytest.fixture
def judge(
    spark: SparkSession,
    one_release: OneRelease,
    postgres: Postgres,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Judge:
    """Audits with these expectations; returns the error, the table's verdicts by rule, and all pages."""
    session = lake_of(spark, one_release.judged.copy(tmp_path), one_release.files, monkeypatch)

    def judge(*expectations: dict[str, Any], **request: str) -> Any:
        feed = feed_of(postgres, monkeypatch, tables=[{"table": TABLE, "expectations": expectations}])
        over = one_release.over
        if request:
            over = over.model_copy(update={"request": Request(**request)})
        error = None
        try:
            audit.run(session, feed, over)
        except AuditFailed as failed:
            error = failed
        control = ControlStore(Settings().control_url)
        rows = {row.rule: row for row in control.audits.of_window(feed.feed, over.id) if row.table == TABLE}
        docs = docs_index(Settings().data_docs, feed.feed, over).parent
        return (
            error,
            rows,
            "\n".join(p.read_text("utf-8") for p in [*docs.glob("**/*.html"), *docs.glob("**/*.json")]),
        )

    return judge


def test_what_holds_passes_and_a_warning_does_not_stop_the_run(judge: Judge) -> None:
    error, rows, pages = judge(*HOLDS, *({**expectation, "severity": "warning"} for expectation in FAILING))
    assert error is None
    names = {"expect_column_values_to_not_be_null_id", "known_operations",
             "expect_table_row_count_to_be_between", "has_history"}  # fmt: skip
    assert names < rows.keys()
    assert all(rows[name].success for name in names)
    assert "known_operations" in pages
    # The first page links to those of Great Expectations.
    assert ">dbo customers changes touched</a>" in pages
    assert {rule: rows[rule].success for rule in (RULE, "ids_below_zero")} == {
        RULE: False,
        "ids_below_zero": False,
    }


def test_an_error_stops_the_run_unless_it_is_tolerated(judge: Judge) -> None:
    error, rows, pages = judge(*FAILING)
    for rule, shown in ((RULE, "Ids are below 0."), ("ids_below_zero", "id &gt; 0")):
        assert f"{TABLE}: {rule}: {rows[rule].violations} violations" in str(error)
        assert rows[rule].violations > 1
        assert rows[rule].detail["stops"]
        assert shown in pages
    error, rows, _ = judge(*FAILING, tolerate="error", reason="known")
    assert error is None
    for rule in (RULE, "ids_below_zero"):
        assert (rows[rule].success, rows[rule].detail["tolerated"]) == (False, "known")


@pytest.mark.parametrize(
    "expectations",
    [
        {
            "column": {"expect_column_values_to_not_be_null": {"column": "absent"}},
            "argument": {"expect_column_values_to_be_between": {"column": "id", "min_value": 0, "mostly": 7}},
            "sql": {"sql": "SELECT absent FROM current"},
        },
        # Apart from the others: it fails while Spark works, with all that are checked in the same pass.
        {"regex": {"expect_column_values_to_match_regex": {"column": "name", "regex": "("}}},
        # Spark's optimizer never ended when a source was asked for a sum over such a constant.
        {
            "set": {"expect_column_values_to_be_in_set": {"column": "id", "value_set": ["none"]}},
            "sum": {"sql": "SELECT count(CASE WHEN id = 'none' THEN 1 END) AS n FROM current HAVING n > 0"},
        },
    ],
    ids=["before", "while", "without end"],
)
def test_what_cannot_be_checked_stops_it_too(judge: Judge, expectations: dict[str, dict[str, Any]]) -> None:
    named = [{**expectation, "name": f"wrong_{name}"} for name, expectation in expectations.items()]
    error, rows, _ = judge(*named, tolerate="error", reason="known")
    for name in expectations:
        assert f"{TABLE}: wrong_{name}: could not be checked" in str(error)
        assert rows[f"wrong_{name}"].detail["error"]


def test_no_value_is_shown_where_values_are_redacted(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {"expect_column_values_to_match_regex": {"column": "name", "regex": "^$"}, "name": "names"}
    rows = {"sql": "SELECT name FROM current", "name": "rows"}
    cast = {"sql": "SELECT * FROM current WHERE CAST(name AS INT) > 0", "name": "cast"}
    # A word of the simulated names, with its number.
    value = re.compile(r"plain \d+")
    error, verdicts, pages = judge(shown, rows, cast)
    assert value.search(pages)
    assert "CAST_INVALID_INPUT" in str(error)
    monkeypatch.setenv("CHANGELEDGER_REDACT_VALUES", "true")
    error, hidden, pages = judge(shown, rows, cast)
    assert not value.search(pages)
    assert "cast: could not be checked: [CAST_INVALID_INPUT]; its message" in str(error)
    assert not value.search(str(error))
    assert [hidden[name].success for name in ("names", "rows", "cast")] == [False, False, False]
    assert verdicts.keys() == hidden.keys()
