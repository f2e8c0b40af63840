"""Great Expectations: one suite per table, over the numbers that rules have found, and Data Docs.

A batch is one row whose columns are the rules and whose values are their violations, so an expectation
costs no Spark job. Great Expectations takes seconds to import: only the functions here do so.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from changeledger.audit.rules import Rule
from changeledger.config.folders import private
from changeledger.model.wording import counted

if TYPE_CHECKING:
    from great_expectations import ExpectationSuite
    from great_expectations.core import ExpectationValidationResult
    from great_expectations.data_context.data_context.abstract_data_context import AbstractDataContext

_UNSAFE = re.compile(r"[^\w.\- ]")


@dataclass(frozen=True)
class RuleOutcome:
    """What Great Expectations says of one rule; `errored`: it could not be checked."""

    success: bool
    errored: bool


def load() -> None:
    """Import Great Expectations, which takes seconds."""
    import great_expectations  # noqa: F401, PLC0415


def validate(
    rules: Mapping[str, Sequence[Rule]], run_name: str, folder: Path
) -> dict[tuple[str, str], RuleOutcome]:
    """Validate each subject's rules, and write results and Data Docs (`index.html`) to `folder`.

    What an earlier attempt at the same run left in `folder` is replaced. Outcomes are by subject and
    rule name.
    """
    import great_expectations as gx  # noqa: PLC0415
    import pandas as pd  # type: ignore[import-untyped]  # noqa: PLC0415

    shutil.rmtree(folder, ignore_errors=True)
    private(folder)
    context = _context(folder)
    source = context.data_sources.add_pandas("changeledger")
    outcomes = {}
    for subject, of_subject in rules.items():
        # A rule without a count has no column, so its expectation errs instead of passing.
        counts = {r.name: r.finding.violations for r in of_subject if r.finding.violations is not None}
        name = _UNSAFE.sub("_", subject)
        batch = source.add_dataframe_asset(name).add_batch_definition_whole_dataframe(run_name)
        suite = context.suites.add(_suite(name, of_subject))
        definition = gx.ValidationDefinition(name=name, data=batch, suite=suite)
        result = context.validation_definitions.add(definition).run(
            batch_parameters={"dataframe": pd.DataFrame(counts, index=[0])},
            result_format="BASIC",
            run_id=gx.RunIdentifier(run_name=run_name),
        )
        for expectation in result.results:
            outcomes[subject, _column(expectation)] = _outcome(expectation)
    context.build_data_docs()
    # Moving pictures of a tutorial: most of a run's pages in size, and no page shows them.
    for picture in folder.glob("static/images/*.gif"):
        picture.unlink()
    return outcomes


def _context(folder: Path) -> AbstractDataContext:
    """A context that lives as long as this call, and writes to `folder` alone."""
    import great_expectations as gx  # noqa: PLC0415
    from great_expectations.data_context.types.base import (  # noqa: PLC0415
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    def files(path: Path) -> dict[str, Any]:
        return {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(path)}

    defaults = InMemoryStoreBackendDefaults()
    results: Any = defaults.stores[defaults.validation_results_store_name]
    results["store_backend"] = {**files(folder / "results"), "filepath_suffix": ".json"}
    site = {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "store_backend": files(folder),
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
    }
    config = DataContextConfig(
        store_backend_defaults=defaults,
        data_docs_sites={"data_docs": site},
        analytics_enabled=False,
        progress_bars=ProgressBarsConfig(globally=False),
    )
    return gx.get_context(mode="ephemeral", project_config=config)


def _suite(name: str, rules: Sequence[Rule]) -> ExpectationSuite:
    from great_expectations import ExpectationSuite  # noqa: PLC0415
    from great_expectations.expectations.core.expect_column_values_to_be_between import (  # noqa: PLC0415
        ExpectColumnValuesToBeBetween,
    )
    from great_expectations.expectations.metadata_types import FailureSeverity  # noqa: PLC0415

    return ExpectationSuite(
        name=name,
        expectations=[
            ExpectColumnValuesToBeBetween(
                column=rule.name,
                min_value=0,
                max_value=0,
                # Data Docs print the description where they would print "values must be between 0 and 0".
                description=_description(rule),
                severity=FailureSeverity.WARNING if rule.severity == "warning" else FailureSeverity.CRITICAL,
                meta={"column": rule.column, "checked": rule.finding.checked},
            )
            for rule in rules
        ],
    )


def _description(rule: Rule) -> str:
    found = rule.finding
    asked = "" if found.checked is None else f" of {counted(found.checked, 'row')}"
    if found.error is not None:
        outcome = f"NOT CHECKED: {found.error}"
    elif found.violations:
        outcome = f"{counted(found.violations or 0, 'violation')}{asked}"
    else:
        outcome = f"no violation{asked}"
    # The renderer writes it into the page as it is; errors and topic names are not ours.
    return escape(f"{rule.says} ({outcome})", quote=False)


def _column(result: ExpectationValidationResult) -> str:
    assert result.expectation_config is not None
    return str(result.expectation_config.kwargs["column"])


def _outcome(result: ExpectationValidationResult) -> RuleOutcome:
    """`exception_info` holds `raised_exception` itself, or one such entry for each metric that failed."""
    info = result.exception_info or {}
    entries = [info, *(entry for entry in info.values() if isinstance(entry, dict))]
    errored = any(entry.get("raised_exception") for entry in entries)
    return RuleOutcome(bool(result.success) and not errored, errored)
