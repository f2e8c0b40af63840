"""Expectations that users add to a table, validated by Great Expectations on tables of the run's branch."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from changeledger.audit.outcomes import (
    Outcomes,
    RuleOutcome,
    documented,
    exception,
    failure_severity,
    said,
    spark_batch,
    with_samples,
)
from changeledger.audit.remedies import require_own_names
from changeledger.audit.rules import SAMPLES, Rule
from changeledger.config.expectations import ExpectationConfig
from changeledger.config.tables import TableConfig
from changeledger.model.wording import shortened
from changeledger.pages.redaction import redacted_message

if TYPE_CHECKING:
    from great_expectations.core import ExpectationValidationResult
    from great_expectations.data_context.data_context.abstract_data_context import AbstractDataContext
    from great_expectations.expectations.expectation import Expectation
    from pyspark.sql import DataFrame

# The column that has each row that a user's SQL returns, as JSON.
ROW: Final = "row"
# How many letters of a value are shown.
_MOST: Final = 1000
# The name of a Data Docs file has the suite's name twice, in up to 255 bytes. The table has at most this
# many.
_TABLE_BYTES: Final = 60


class Asked(NamedTuple):
    """Expectations of one DataFrame. `subject`: the table; `shown`: columns that say which row it is."""

    subject: str
    name: str
    frame: Callable[[], DataFrame]
    expectations: tuple[ExpectationConfig, ...]
    shown: tuple[str, ...]


def suite_name(table: str, of: str) -> str:
    """Returns the name of a Great Expectations suite, and of its pages' folder: `dbo orders current all`.

    A dot would make two folders of it, and a slash is refused. Two tables of a feed have two names.
    """
    name = re.sub(r"\W+", " ", table)
    if not re.fullmatch(r"\w+\.\w+", table) or len(name.encode()) > _TABLE_BYTES:
        digest = hashlib.sha256(table.encode()).hexdigest()[:8]
        name = f"{name.encode()[: _TABLE_BYTES - 9].decode(errors='ignore')} {digest}"
    return f"{name} {of}"


def rules(table: TableConfig, asked: set[str]) -> list[Rule]:
    """Returns the rules of the table's expectations that are `asked` in this run. Raises ConfigError."""
    require_own_names(table)
    return [
        Rule(
            expectation.rule,
            ", ".join(expectation.columns),
            expectation.note or _says(expectation),
            expectation.severity,
            is_users=True,
        )
        for expectation in table.expectations
        if expectation.rule in asked
    ]


def _says(expectation: ExpectationConfig) -> str:
    if expectation.sql:
        return f"No row is returned by: {' '.join(expectation.sql.split())}"
    arguments = ", ".join(f"{name}={value}" for name, value in expectation.arguments.items())
    return f"{expectation.kind.replace('_', ' ').capitalize()} ({arguments}) of {expectation.on}."


def validate(context: AbstractDataContext, asked: Asked, run: Any, *, redact: bool) -> Outcomes:
    """Returns outcomes by subject and rule. An expectation that cannot be built or evaluated has errored.

    `redact`: results have no values, and so no numbers of rows. They are not in Data Docs, because error
    messages may hold values.
    """
    outcomes: Outcomes = {}
    expectations: list[Expectation] = []
    for config in asked.expectations:
        try:
            expectations.append(_expectation(config))
        except Exception as error:  # noqa: BLE001 - whatever it is, the expectation has not been checked
            outcomes[asked.subject, config.rule] = _errored(error)
    try:
        with _in_utc():
            results = _results(context, asked, expectations, None if redact else run)
    except Exception as error:  # noqa: BLE001 - as above
        failed = _errored(error)
        outcomes = {(asked.subject, config.rule): failed for config in asked.expectations} | outcomes
    else:
        by_rule = {str(_meta(result)["rule"]): _outcome(result) for result in results}
        outcomes |= {(asked.subject, rule): outcome for rule, outcome in by_rule.items()}
    if redact:
        return {
            of: replace(outcome, error=outcome.error and redacted_message(outcome.error))
            for of, outcome in outcomes.items()
        }
    return outcomes


@contextmanager
def _in_utc() -> Iterator[None]:
    """Sets this process to the time zone of its Spark session.

    PySpark takes bounds without a zone for local times, and returns timestamps as local times.
    """
    zone = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        yield
    finally:
        del os.environ["TZ"]
        os.environ |= {} if zone is None else {"TZ": zone}
        time.tzset()


def _results(
    context: AbstractDataContext, asked: Asked, expectations: list[Expectation], run: Any
) -> list[ExpectationValidationResult]:
    """Validates the expectations. Without a run, the results have no values and are not stored."""
    import great_expectations as gx  # noqa: PLC0415

    suite = gx.ExpectationSuite(name=asked.name, expectations=expectations)
    batch = spark_batch(context, asked.name)
    if run is None:
        frame = batch.get_batch({"dataframe": asked.frame()})
        return frame.validate(suite, result_format="BOOLEAN_ONLY").results
    return documented(context, suite, batch, asked.frame(), with_samples(asked.shown), run).results


def _expectation(config: ExpectationConfig) -> Expectation:
    from great_expectations.expectations.registry import get_expectation_impl  # noqa: PLC0415

    kind, arguments = config.kind, config.arguments
    if config.sql:
        kind, arguments = "expect_column_values_to_be_null", {"column": ROW}
    return get_expectation_impl(kind)(
        **{name: _without_zone(value) for name, value in arguments.items()},
        description=config.note or _says(config),
        severity=failure_severity(config.severity),
        meta={"rule": config.rule, "severity": config.severity},
    )


def _without_zone(value: Any) -> Any:
    """Converts a time with a zone to UTC without a zone, which compares with values of any time column."""
    if isinstance(value, list):
        return [*map(_without_zone, value)]
    is_aware = isinstance(value, datetime) and value.tzinfo is not None
    return value.astimezone(UTC).replace(tzinfo=None) if is_aware else value


def _outcome(result: ExpectationValidationResult) -> RuleOutcome:
    error = exception(result)
    if error is not None:
        return RuleOutcome.unchecked(error)
    details = result.result or {}
    violations = details.get("unexpected_count")
    if violations is None:
        # There is no count without rows, or if the expectation does not count rows.
        violations = int(not result.success)
    samples = [dict(row) for row in details.get("partial_unexpected_index_list") or ()]
    if not samples and "observed_value" in details and not result.success:
        samples = [{"observed": details["observed_value"]}]
    shown = tuple({name: _shown(value) for name, value in row.items()} for row in samples[:SAMPLES])
    return RuleOutcome(bool(result.success), violations=int(violations), samples=shown)


def _shown(value: Any) -> Any:
    """Shortens a large value, which would be in logs and alerts, too. Data Docs have all of it."""
    if isinstance(value, bytes | bytearray):
        return bytes(value[:_MOST])
    return shortened(value, _MOST) if isinstance(value, str) else value


def _meta(result: ExpectationValidationResult) -> Mapping[str, Any]:
    assert result.expectation_config is not None
    meta: Mapping[str, Any] = result.expectation_config.meta
    return meta


def _errored(error: Exception) -> RuleOutcome:
    from great_expectations.compatibility.pydantic import ValidationError  # noqa: PLC0415

    why = said(str(error))
    if isinstance(error, ValidationError):
        # The message's first line says only how many arguments are wrong.
        why = "; ".join(f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}" for wrong in error.errors())
    return RuleOutcome.unchecked(f"{type(error).__name__}: {why}")
