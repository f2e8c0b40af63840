"""Users' expectations on Spark, where Great Expectations by itself would answer differently."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from changeledger.audit import suites
from changeledger.audit.outcomes import RuleOutcome
from changeledger.audit.user_expectations import Asked, validate
from changeledger.config.expectations import ExpectationConfig

BETWEEN = "expect_column_values_to_be_between"
GREATER = "expect_column_pair_values_a_to_be_greater_than_b"
MAX = "expect_column_max_to_be_between"
TABLE = "dbo.t"
TEN, HALF_PAST_NINE = datetime(2026, 8, 7, 10), "2026-08-07 09:30:00"


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Gives the job's machine another time zone than the session."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
        assert os.environ["TZ"] == "Europe/Berlin"
        assert time.localtime(TEN.replace(tzinfo=UTC).timestamp()).tm_hour == 12
    time.tzset()


def outcomes(frame: DataFrame, folder: Path, *types: dict[str, Any]) -> list[RuleOutcome]:
    suites.load()
    import great_expectations as gx  # noqa: PLC0415

    expectations = tuple(
        ExpectationConfig.model_validate({"expect": of_type, "name": f"e{number}"})
        for number, of_type in enumerate(types)
    )
    asked = Asked(TABLE, "dbo t current all", lambda: frame, expectations, ("id",))
    of_rules = validate(suites._context(folder), asked, gx.RunIdentifier(run_name="a run"), redact=False)
    return [of_rules[TABLE, expectation.rule] for expectation in expectations]


def held(frame: DataFrame, folder: Path, *types: dict[str, Any]) -> list[bool | str | None]:
    """Returns for each type whether it holds, or why it was not checked."""
    of_types = outcomes(frame, folder, *types)
    return [outcome.error if outcome.errored else outcome.success for outcome in of_types]


@pytest.mark.usefixtures("in_berlin")
def test_bounds_of_time_are_those_of_utc(spark: SparkSession, tmp_path: Path) -> None:
    columns = (f"CAST('{HALF_PAST_NINE}' AS {kind}) AS {name}" for name, kind in
               (("at", "TIMESTAMP_NTZ"), ("moment", "TIMESTAMP")))  # fmt: skip
    frame = spark.sql(f"SELECT 1 AS id, {', '.join(columns)}")
    aware = TEN.replace(tzinfo=UTC)
    types = [
        {kind: {"column": column, bound: ten}}
        for column in ("at", "moment")
        for kind in (BETWEEN, MAX)
        for ten in (TEN, aware)
        for bound in ("min_value", "max_value")
    ]
    assert held(frame, tmp_path, *types) == [False, True] * 8


def test_no_value_is_greater_than_null(spark: SparkSession, tmp_path: Path) -> None:
    def of(ignored: str, *, or_equal: bool = False) -> dict[str, Any]:
        pair = {"column_A": "a", "column_B": "b", "or_equal": or_equal, "ignore_row_if": ignored}
        return {GREATER: pair}

    frame = spark.sql("SELECT * FROM VALUES (1, 5, 3), (2, NULL, 3), (3, 5, NULL) AS t(id, a, b)")
    types = of("both_values_are_missing"), of("neither"), of("either_value_is_missing")
    assert held(frame, tmp_path / "one", *types) == [False, False, True]
    nothing = spark.sql("SELECT 1 AS id, CAST(NULL AS INT) AS a, CAST(NULL AS INT) AS b")
    types = of("neither"), of("neither", or_equal=True), of("both_values_are_missing")
    assert held(nothing, tmp_path / "both", *types) == [False, True, True]


def test_what_is_wrong_with_an_argument_is_said(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql("SELECT 1 AS id, '2026' AS year, DATE'2026-08-07' AS day")
    between = {"column": "id", "min_value": 0}
    error, holds = held(frame, tmp_path / "one", {BETWEEN: {**between, "mostly": 7}}, {BETWEEN: between})
    assert "mostly: ensure this value is less than or equal to 1.0" in str(error)
    assert holds is True
    in_workers, told = "expect_column_values_to_match_strftime_format", {"strftime_format": "%Y"}
    assert held(frame, tmp_path / "text", {in_workers: {"column": "year", **told}}) == [True]
    (error,) = held(frame, tmp_path / "date", {in_workers: {"column": "day", **told}})
    assert "must be of type string" in str(error)


def test_of_a_large_value_only_its_begin_is_in_messages(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql("SELECT 1 AS id, repeat('x', 5000) AS a, CAST(repeat('x', 5000) AS BINARY) AS b")
    texts, octets = outcomes(
        frame, tmp_path, *({"expect_column_values_to_be_null": {"column": column}} for column in "ab")
    )
    assert texts.samples == ({"id": 1, "a": "x" * 1000 + " ..."},)
    assert octets.samples == ({"id": 1, "b": b"x" * 1000},)
