"""Expectations and metrics of Great Expectations on the audit's narrow rows and sums.

Great Expectations takes seconds to import: import this module inside functions only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial, reduce
from types import new_class
from typing import Any, Final

from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.core.expect_column_values_to_be_between import (
    ExpectColumnValuesToBeBetween,
)
from great_expectations.expectations.core.expect_column_values_to_be_null import ExpectColumnValuesToBeNull
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from great_expectations.validator.metric_configuration import MetricConfiguration
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from changeledger.audit.narrow_rows import RULE, RULES, WHERE
from changeledger.audit.rules import SAMPLES

CHECKED: Final = "changeledger.checked"
COUNTS: Final = "changeledger.counts"
SHOWN: Final = "changeledger.samples"
BROKEN: Final = "broken"
_REASONS: Final = "column_values.null.unexpected_values"


def _of_frame(answer: Callable[[DataFrame], DataFrame]) -> Any:
    """A metric of Great Expectations: the rows that `answer` makes of the whole batch, as dictionaries."""

    @metric_value(engine=SparkDFExecutionEngine)
    def asked(
        cls: type,  # noqa: ARG001
        execution_engine: SparkDFExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        **_: Any,
    ) -> list[dict[str, Any]]:
        frame = execution_engine.get_compute_domain(metric_domain_kwargs, MetricDomainTypes.TABLE)[0]
        return [row.asDict() for row in answer(frame).collect()]

    return asked


def _counted(rows: DataFrame, rules: Sequence[str] = ()) -> DataFrame:
    """By table and kind: how many rows, and how many reasons of each of the rules."""
    counts = (F.count(rule).alias(rule) for rule in rules)
    return rows.groupBy("table", "kind").agg(F.count(F.lit(1)).alias("rows"), *counts)


def _samples(rows: DataFrame) -> DataFrame:
    """Some rows that break a rule, of each rule and table."""
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
    _spark = _of_frame(partial(_counted, rules=RULES))


class Checked(TableMetricProvider):
    """Rows by table and kind."""

    metric_name = CHECKED
    _spark = _of_frame(_counted)


class Samples(TableMetricProvider):
    """Rows that break a rule. One Spark job for all rules."""

    metric_name = SHOWN
    _spark = _of_frame(_samples)


class RuleHolds(ExpectColumnValuesToBeNull):
    """No row has a reason.

    `details` of the result: exact counts by table. Rows are shown of the rule whose `meta` says that it is
    BROKEN, some of each table: that takes Spark jobs for each rule. Else only how many there are.
    """

    def get_validation_dependencies(
        self, execution_engine: Any = None, runtime_configuration: dict[str, Any] | None = None, **more: Any
    ) -> Any:
        asked = self._asked(runtime_configuration)
        needed = super().get_validation_dependencies(execution_engine, asked, **more)
        wanted = [COUNTS, SHOWN] if self._is_broken else [CHECKED]
        if not self._is_broken:
            needed.remove_metric_configuration(_REASONS)
        for name in wanted:
            needed.set_metric_configuration(name, MetricConfiguration(name, {}, {}))
        return needed

    @property
    def _is_broken(self) -> bool:
        return bool((self.meta or {}).get(BROKEN))

    def _asked(self, runtime_configuration: dict[str, Any] | None) -> dict[str, Any]:
        configured = runtime_configuration or {}
        return configured if self._is_broken else {**configured, "result_format": "BASIC"}

    def _validate(
        self, metrics: dict[str, Any], runtime_configuration: Any = None, execution_engine: Any = None
    ) -> dict[str, Any]:
        known = {_REASONS: [], **metrics}
        asked = self._asked(runtime_configuration)
        outcome: dict[str, Any] = super()._validate(known, asked, execution_engine)
        tables: dict[str, dict[str, int]] = {}
        for row in metrics.get(COUNTS) or metrics.get(CHECKED) or ():
            counts = tables.setdefault(row["table"], {})
            broken = "unchecked" if row["kind"] == RULE else "broken"
            counts[broken] = counts.get(broken, 0) + row.get(self.column, 0)
            counts[row["kind"]] = row["rows"]
        samples = [
            {name: value for name, value in row.items() if name != "rule" and value is not None}
            for row in metrics.get(SHOWN, ())
            if row["rule"] == self.column
        ]
        details = {"tables": tables, "samples": samples}
        return {**outcome, "result": {**outcome.get("result", {}), "details": details}}


class NothingIsWrong(ExpectColumnValuesToBeBetween):
    """What a rule counts as wrong is 0 of each source or table."""

    min_value: Any = 0
    max_value: Any = 0


@cache
def named(rule: str, *, of_sums: bool) -> type[RuleHolds] | type[NothingIsWrong]:
    """The expectation of a rule: its type has the rule's name, in results and Data Docs."""
    name = rule.title().replace("_", "")
    kind: type[RuleHolds] | type[NothingIsWrong] = NothingIsWrong if of_sums else RuleHolds
    expectation_type: type[RuleHolds] | type[NothingIsWrong] = new_class(name, (kind,))
    return expectation_type
