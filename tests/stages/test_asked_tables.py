"""Which rows users' expectations check: the tables of a run's branch, or the rows that the run wrote."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from changeledger.audit import suites, user_expectations
from changeledger.config.tables import TableConfig
from changeledger.lake import catalog, refs
from changeledger.lake.summaries import BuiltTable
from changeledger.model.contract import Column, Contract
from changeledger.model.table_names import TableNames
from changeledger.spark.rows import Workers
from changeledger.stages.auditing.asked import AskedTables, without_records
from tests.feeds import feed_of
from tests.spark_jobs import Counter
from tests.stored_rows import replace_rows

CONTRACT = Contract(table="dbo.t", columns=(Column(name="id", type="int", ordinal=1, key_position=1),))
ROWS = {
    "expect_column_max_to_be_between": {"column": "id", "max_value": 10},
    "expect_table_row_count_to_be_between": {"min_value": 1},
}
QUANTILES = {"column": "id", "quantile_ranges": {"quantiles": [0.5], "value_ranges": [[0, 10]]}}


def asked_of(spark: SparkSession, ids: dict[int, str], *expectations: dict[str, Any]) -> list[Any]:
    """Returns what is checked. `ids`: the table's rows, and the run that wrote each. The run is `now`."""
    catalog.create_namespace("asked")
    names = TableNames.of("asked", CONTRACT.table)
    runs = list(ids.values())
    cells = {"id": pa.array(ids, pa.int32()), "_window_id": runs, "window_id": runs}
    rows = pa.table({**cells, "_change_id": ["c"] * len(ids)})
    snapshots = {}
    for name in names:
        replace_rows(name, rows)
        snapshots[name] = refs.snapshot_of(name)
    ctx: Any = SimpleNamespace(
        spark=spark, workers=Workers(lambda: spark), id="now", names={CONTRACT.table: names},
        snapshots=snapshots,
    )  # fmt: skip
    built = dict.fromkeys(names, BuiltTable(is_new=True, is_published=True, before=3, now=len(ids)))
    config = TableConfig.model_validate({"table": CONTRACT.table, "expectations": expectations})
    return AskedTables(ctx, built).of(config, CONTRACT)


def test_where_a_run_has_only_deleted_nothing_is_asked_of_touched_rows(spark: SparkSession) -> None:
    """No rows have no largest id, which must not stop a window of only deletes."""
    of_touched = [{name: arguments} for name, arguments in ROWS.items()]
    of_all = [{**expectation, "scope": "all"} for expectation in of_touched]
    assert asked_of(spark, {1: "earlier", 2: "earlier"}, *of_touched) == []
    assert [len(asked.expectations) for asked in asked_of(spark, {1: "earlier"}, *of_all)] == [2]
    assert [len(asked.expectations) for asked in asked_of(spark, {1: "earlier", 2: "now"}, *of_touched)] == [
        2
    ]


def test_quantiles_are_stored_with_the_others(spark: SparkSession, tmp_path: Path) -> None:
    """Great Expectations 1 returns numpy's bool for quantiles, which made a whole suite uncheckable."""
    suites.load()
    (asked,) = asked_of(
        spark,
        {1: "now", 2: "now"},
        {"expect_column_quantile_values_to_be_between": QUANTILES},
        {"expect_column_values_to_not_be_null": {"column": "id"}},
    )
    import great_expectations as gx  # noqa: PLC0415

    run = gx.RunIdentifier(run_name="a run")
    outcomes = user_expectations.validate(suites._context(tmp_path), asked, run, redact=False)
    assert [(outcome.success, outcome.error) for outcome in outcomes.values()] == [(True, None)] * 2


@pytest.mark.parametrize("redact", [True, False])
@pytest.mark.parametrize(
    ("sql", "jobs", "error"),
    [
        ("SELECT * FROM current WHERE CAST(_change_id AS INT) > 0", 1, "[CAST_INVALID_INPUT]"),
        ("SELECT * FROM current WHERE id > 5", None, None),
    ],
)
def test_sql_that_cannot_be_computed_is_run_once(
    spark: SparkSession, tmp_path: Path, sql: str, jobs: int | None, error: str | None, *, redact: bool
) -> None:
    """Great Expectations asks for metric after metric, three times each: an hour's query ran for six."""
    suites.load()
    (asked,) = asked_of(spark, {1: "now", 2: "now"}, {"sql": sql, "name": "asked"})
    import great_expectations as gx  # noqa: PLC0415

    run, counter = gx.RunIdentifier(run_name="a run"), Counter(spark)
    (outcome,) = user_expectations.validate(suites._context(tmp_path), asked, run, redact=redact).values()
    assert jobs in {None, counter.new()}
    assert (outcome.success, outcome.errored) == (error is None, error is not None)
    assert error is None or error in str(outcome.error)


def test_tables_of_which_no_record_has_come_are_named() -> None:
    """Such tables have no ledger, so nothing can be checked, whatever the scope."""
    wanted = {"expect_table_row_count_to_be_between": {"min_value": 1000}, "scope": "all"}
    tables = [
        {"table": "dbo.misspelt", "expectations": [wanted]},
        {"table": "dbo.read", "expectations": [wanted]},
        {"table": "dbo.quiet"},
    ]
    assert without_records(feed_of("shop", *tables), {"dbo.read"}) == ["dbo.misspelt"]
