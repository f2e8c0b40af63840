"""Great Expectations: one suite over the narrow rows of all tables, one over sums, and Data Docs.

Great Expectations takes seconds to import: only the functions here do so.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from changeledger.audit import user_expectations
from changeledger.audit.narrow_rows import CHANGE, NOT_CHECKED, OF_CHANGES, RULE, WHERE
from changeledger.audit.outcomes import (
    Outcomes,
    RuleOutcome,
    documented,
    exception,
    failure_severity,
    spark_batch,
    with_samples,
)
from changeledger.audit.rules import SAMPLES, Rule
from changeledger.audit.user_expectations import Asked
from changeledger.config.folders import private
from changeledger.console.arrow_alone import expect_pandas

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from great_expectations import ExpectationSuite
    from great_expectations.core import ExpectationSuiteValidationResult, ExpectationValidationResult
    from great_expectations.data_context.data_context.abstract_data_context import AbstractDataContext
    from pyspark.sql import DataFrame

# The names of the suites, and the columns that say what a row of sums is about.
ROWS: Final = "rows"
SUMS: Final = "sums"
_OF_SUMS: Final = ("table", "of", "why")
_NOT_COUNTED: Final = -1


class Judged(NamedTuple):
    """What is validated. `rows`: `narrow_rows.ROWS` of all subjects; `asked`: users' expectations.

    `redact`: without the values of the source's rows.
    """

    rows: DataFrame
    asked: Sequence[Asked] = ()
    redact: bool = False


def load() -> None:
    """Imports Great Expectations, which takes seconds and uses pandas."""
    # At each import it warns that it declares a dozen of its own classes twice.
    logging.getLogger("great_expectations.expectations.registry").setLevel(logging.ERROR)
    import changeledger.audit.expectations  # noqa: F401, PLC0415

    expect_pandas()


def validate(judged: Judged, rules: Mapping[str, Sequence[Rule]], run_name: str, folder: Path) -> Outcomes:
    """Validates the rules of all subjects, and writes results and Data Docs (`index.html`) to `folder`.

    Replaces what an earlier attempt at the same run left in `folder`.
    """
    import great_expectations as gx  # noqa: PLC0415

    shutil.rmtree(folder, ignore_errors=True)
    private(folder)
    context = _context(folder)
    run = gx.RunIdentifier(run_name=run_name, run_time=datetime.now(UTC))
    ours = {name: [rule for rule in of_name if not rule.is_users] for name, of_name in rules.items()}
    each = {rule.name: rule for of_subject in ours.values() for rule in of_subject}.values()
    of_rows, of_sums = ([rule for rule in each if (rule.sums is None) == wanted] for wanted in (True, False))
    # The columns are those that `expectations.RuleHolds` gives for its samples.
    shown, batch = with_samples(WHERE), spark_batch(context, ROWS)
    rows = documented(context, _suite(ROWS, of_rows), batch, judged.rows, shown, run)
    outcomes = _outcomes_of_rows(rows, ours)
    shown = {"result_format": "COMPLETE", "unexpected_index_column_names": list(_OF_SUMS)}
    asset = context.data_sources.add_pandas(SUMS).add_dataframe_asset(SUMS)
    batch = asset.add_batch_definition_whole_dataframe(SUMS)
    wrong = _sums(ours, [rule.name for rule in of_sums])
    sums = documented(context, _suite(SUMS, of_sums), batch, wrong, shown, run)
    outcomes |= _outcomes_of_sums(sums, ours)
    for asked in judged.asked:
        outcomes |= user_expectations.validate(context, asked, run, redact=judged.redact)
    context.build_data_docs()
    # Animations of a tutorial: they are most of the size of a run's pages, and no page shows them.
    for picture in folder.glob("static/images/*.gif"):
        picture.unlink()
    return outcomes


def _sums(rules: Mapping[str, Sequence[Rule]], names: Sequence[str]) -> pd.DataFrame:
    """Returns a row for each sum, with its number in the column of its rule."""
    import pandas as pd  # noqa: PLC0415

    rows = [
        {
            "table": subject,
            "of": rule_sum.of,
            "why": rule_sum.why,
            rule.name: _NOT_COUNTED if rule_sum.wrong is None else rule_sum.wrong,
        }
        for subject, of_subject in rules.items()
        for rule in of_subject
        for rule_sum in rule.sums or ()
    ]
    frame = pd.DataFrame(rows, columns=[*_OF_SUMS, *names])
    return frame.astype(dict.fromkeys(names, "float64"))


def _context(folder: Path) -> AbstractDataContext:
    """Returns a context that is not stored, and writes only to `folder`."""
    import great_expectations as gx  # noqa: PLC0415
    from great_expectations.data_context.types.base import (  # noqa: PLC0415
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    from changeledger.audit.data_docs import site  # noqa: PLC0415

    defaults = InMemoryStoreBackendDefaults()
    results: Any = defaults.stores[defaults.validation_results_store_name]
    results["store_backend"] = {
        "class_name": "TupleFilesystemStoreBackend",
        "base_directory": str(folder / "results"),
        "filepath_suffix": ".json",
    }
    config = DataContextConfig(
        store_backend_defaults=defaults,
        data_docs_sites={"data_docs": site(folder)},
        analytics_enabled=False,
        progress_bars=ProgressBarsConfig(globally=False),
    )
    return gx.get_context(mode="ephemeral", project_config=config)


def _suite(name: str, rules: Sequence[Rule]) -> ExpectationSuite:
    from great_expectations import ExpectationSuite  # noqa: PLC0415

    from changeledger.audit.expectations import named  # noqa: PLC0415

    return ExpectationSuite(
        name=name,
        expectations=[
            named(rule.name, of_sums=rule.sums is not None)(
                column=rule.name,
                # Data Docs print the description where they would print "values must be null".
                description=rule.says,
                severity=failure_severity(rule.severity),
                meta={"column": rule.column, "severity": rule.severity},
            )
            for rule in rules
        ],
    )


def _outcomes_of_rows(
    validated: ExpectationSuiteValidationResult, rules: Mapping[str, Sequence[Rule]]
) -> Outcomes:
    results = {_column(result): result for result in validated.results}
    outcomes = {
        (subject, rule.name): _of_table(results[rule.name], rule.name, subject)
        for subject, of_subject in rules.items()
        for rule in of_subject
        if rule.sums is None
    }
    passed = {name for name, result in results.items() if result.success}
    located = {name for (_, name), outcome in outcomes.items() if not outcome.success}
    nowhere = RuleOutcome.unchecked("it fails, but no table says where")
    return {of: outcome if of[1] in passed | located else nowhere for of, outcome in outcomes.items()}


def _of_table(result: ExpectationValidationResult, rule: str, table: str) -> RuleOutcome:
    error = exception(result)
    if error is not None:
        return RuleOutcome.unchecked(error)
    details = result.result["details"]
    counts = details["tables"].get(table, {})
    samples = [dict(row) for row in details["samples"] if row["table"] == table]
    said = [row["why"].removeprefix(NOT_CHECKED) for row in samples if row["kind"] == RULE]
    if counts.get("unchecked"):
        return RuleOutcome.unchecked(said[0] if said else None)
    checked = counts.get(CHANGE, 0) if rule in OF_CHANGES else None
    broken = counts.get("broken", 0)
    shown = ({name: value for name, value in row.items() if name not in {"table", "kind"}} for row in samples)
    return RuleOutcome(not broken, violations=broken, checked=checked, samples=tuple(shown))


def _outcomes_of_sums(
    validated: ExpectationSuiteValidationResult, rules: Mapping[str, Sequence[Rule]]
) -> Outcomes:
    results = {_column(result): result for result in validated.results}
    return {
        (subject, rule.name): _of_sums(results[rule.name], rule.name, subject)
        for subject, of_subject in rules.items()
        for rule in of_subject
        if rule.sums is not None
    }


def _of_sums(result: ExpectationValidationResult, rule: str, subject: str) -> RuleOutcome:
    error = exception(result)
    if error is not None:
        return RuleOutcome.unchecked(error)
    wrong = [row for row in result.result.get("unexpected_index_list") or () if row["table"] == subject]
    for row in wrong:
        if row[rule] == _NOT_COUNTED:
            return RuleOutcome.unchecked(row["why"])
    samples = tuple({"source": row["of"], "why": row["why"]} for row in wrong[:SAMPLES])
    return RuleOutcome(not wrong, violations=sum(int(row[rule]) for row in wrong), samples=samples)


def _column(result: ExpectationValidationResult) -> str:
    assert result.expectation_config is not None
    return str(result.expectation_config.kwargs["column"])
