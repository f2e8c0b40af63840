"""Expectations and metrics of Great Expectations on the audit's narrow rows and sums.

Great Expectations takes seconds to import: import this module inside functions only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce
from types import new_class
from typing import Any, Final

from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.core.expect_column_quantile_values_to_be_between import (
    ExpectColumnQuantileValuesToBeBetween as GxExpectColumnQuantileValuesToBeBetween,
)
from great_expectations.expectations.core.expect_column_values_to_be_between import (
    ExpectColumnValuesToBeBetween,
)
from great_expectations.expectations.core.expect_column_values_to_be_null import ExpectColumnValuesToBeNull
from great_expectations.expectations.expectation_configuration import parse_result_format
from great_expectations.expectations.metrics.column_pair_map_metrics.column_pair_values_greater import (
    ColumnPairValuesAGreaterThanB as GxColumnPairValuesAGreaterThanB,
)
from great_expectations.expectations.metrics.map_metric_provider.column_pair_condition_partial import (
    column_pair_condition_partial,
)
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from great_expectations.validator.metric_configuration import MetricConfiguration
from great_expectations.validator.validator import ValidationDependencies
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from changeledger.audit.narrow_rows import RULE, RULES, WHERE
from changeledger.audit.rules import SAMPLES

COUNTS: Final = "changeledger.counts"
SHOWN: Final = "changeledger.samples"
_ROWS: Final = "table.row_count"
_BROKEN: Final = "column_values.null.unexpected_count"
_VALUES: Final = "column_values.null.unexpected_values"
_PLACES: Final = "column_values.null.unexpected_index_list"


def _of_frame(answer: Callable[[DataFrame], Any]) -> Any:
    """Returns a metric of Great Expectations that applies `answer` to the whole batch."""

    @metric_value(engine=SparkDFExecutionEngine)
    def asked(
        cls: type,  # noqa: ARG001
        execution_engine: SparkDFExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        **_: Any,
    ) -> Any:
        return answer(execution_engine.get_compute_domain(metric_domain_kwargs, MetricDomainTypes.TABLE)[0])

    return asked


def _collected(rows: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in rows.collect()]


def _counted(rows: DataFrame) -> list[dict[str, Any]]:
    """Counts the rows, and the reasons of each rule, by table and kind."""
    counts = (F.count(rule).alias(rule) for rule in RULES)
    return _collected(rows.groupBy("table", "kind").agg(F.count(F.lit(1)).alias("rows"), *counts))


def _samples(rows: DataFrame) -> DataFrame:
    """Selects some rows that break a rule, for each rule and table."""
    reasons = F.array(*(F.struct(F.lit(rule).alias("rule"), F.col(rule).alias("why")) for rule in RULES))
    is_broken: Column = reduce(Column.__or__, (F.col(rule).isNotNull() for rule in RULES))
    broken = (
        rows.where(is_broken)
        .select(*WHERE, "kind", F.explode(reasons).alias("said"))
        .select(*WHERE, "kind", "said.rule", "said.why")
        .where(F.col("why").isNotNull())
    )
    numbered = Window.partitionBy("rule", "table").orderBy("position", "key", "change_id")
    some = broken.withColumn("number", F.row_number().over(numbered)).where(F.col("number") <= SAMPLES)
    return some.orderBy("rule", "table", "number").drop("number")


class Counts(TableMetricProvider):
    """Rows and reasons by table and kind. One Spark job for all rules."""

    metric_name = COUNTS
    _spark = _of_frame(_counted)


class Samples(TableMetricProvider):
    """A function that returns rows that break a rule: one Spark job for all rules, if any is broken."""

    metric_name = SHOWN
    _spark = _of_frame(lambda rows: cache(lambda: _collected(_samples(rows))))


class RuleHolds(ExpectColumnValuesToBeNull):
    """No row has a reason.

    The result's `details` have exact counts by table, and some rows of each table that break the rule.

    Great Expectations would count and search rows with its own Spark jobs for each rule, even for rules that
    hold. It is given the counts and samples instead.
    """

    def get_validation_dependencies(self, *_: Any, **__: Any) -> ValidationDependencies:
        needed = {name: MetricConfiguration(name, {}, {}) for name in (COUNTS, SHOWN)}
        return ValidationDependencies(needed, parse_result_format("BASIC"))

    def _validate(
        self, metrics: dict[str, Any], runtime_configuration: Any = None, execution_engine: Any = None
    ) -> dict[str, Any]:
        tables: dict[str, dict[str, int]] = {}
        for row in metrics[COUNTS]:
            counts = tables.setdefault(row["table"], {})
            outcome = "unchecked" if row["kind"] == RULE else "broken"
            counts[outcome] = counts.get(outcome, 0) + row[self.column]
            counts[row["kind"]] = row["rows"]
        broken = sum(row[self.column] for row in metrics[COUNTS])
        samples = [
            {name: value for name, value in row.items() if name != "rule" and value is not None}
            for row in (metrics[SHOWN]() if broken else ())
            if row["rule"] == self.column
        ]
        places = [{self.column: row["why"], **{name: row.get(name) for name in WHERE}} for row in samples]
        rows = sum(row["rows"] for row in metrics[COUNTS])
        shown = {_VALUES: [row["why"] for row in samples], _PLACES: places}
        known = {**metrics, _ROWS: rows, _BROKEN: broken, **shown}
        judged: dict[str, Any] = super()._validate(known, runtime_configuration, execution_engine)
        details = {"tables": tables, "samples": samples}
        return {**judged, "result": {**judged.get("result", {}), "details": details}}


class NothingIsWrong(ExpectColumnValuesToBeBetween):
    """What a rule counts as wrong is 0 for each source or table."""

    min_value: Any = 0
    max_value: Any = 0


class ExpectColumnQuantileValuesToBeBetween(GxExpectColumnQuantileValuesToBeBetween):
    """Replaces Great Expectations' own expectation in its registry.

    The verdict of that one is a numpy bool, which cannot be stored, and neither can the rest of its suite.
    """

    def _validate(self, *args: Any, **more: Any) -> dict[str, Any]:
        judged: dict[str, Any] = super()._validate(*args, **more)
        return {**judged, "success": bool(judged["success"])}


def _is_greater(
    cls: type,  # noqa: ARG001
    column_a: Column,
    column_b: Column,
    *,
    or_equal: bool | None = None,
    **_: Any,
) -> Column:
    is_greater = column_a > column_b
    return F.coalesce(is_greater | column_a.eqNullSafe(column_b) if or_equal else is_greater, F.lit(False))


class ColumnPairValuesAGreaterThanB(GxColumnPairValuesAGreaterThanB):
    """Replaces Great Expectations' own metric in its registry, which lets rows pass if one value is NULL.

    Unless `ignore_row_if` leaves such rows out, no value is greater than NULL, as on pandas.
    """

    _spark: Any = column_pair_condition_partial(engine=SparkDFExecutionEngine)(_is_greater)


@cache
def named(rule: str, *, of_sums: bool) -> type[RuleHolds] | type[NothingIsWrong]:
    """Returns the expectation of a rule. Its type has the rule's name, in results and Data Docs."""
    name = rule.title().replace("_", "")
    kind: type[RuleHolds] | type[NothingIsWrong] = NothingIsWrong if of_sums else RuleHolds
    expectation_type: type[RuleHolds] | type[NothingIsWrong] = new_class(name, (kind,))
    return expectation_type
