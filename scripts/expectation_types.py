"""Writes the list of expectations that users can name: `.venv/bin/python scripts/expectation_types.py`.

DAG files must parse without Great Expectations, which takes seconds to import.
"""

from __future__ import annotations

import inspect
import json
import sys

from great_expectations.expectations import core
from great_expectations.expectations.expectation import BatchExpectation, Expectation

from changeledger.config.expectations import FILE

# Arguments that this program sets itself, or that are SQL conditions, which nobody checks.
_OURS = {*BatchExpectation.__fields__, "row_condition", "condition_parser", "library_metadata"}
# Expectations that run queries or read other tables.
_ELSEWHERE = {
    "expect_query_results_to_match_comparison", "expect_table_row_count_to_equal_other_table",
    "unexpected_rows_expectation",
}  # fmt: skip


def types() -> dict[str, dict[str, bool]]:
    """Returns by name the arguments, and whether each is required."""
    by_name = {}
    for kind in vars(core).values():
        if not (inspect.isclass(kind) and issubclass(kind, Expectation)):
            continue
        module = sys.modules[kind.__module__]
        name = module.__name__.rpartition(".")[2]
        if name not in _ELSEWHERE and "Spark" in getattr(module, "SUPPORTED_DATA_SOURCES", ()):
            arguments = kind.__fields__.items()
            by_name[name] = {key: bool(field.required) for key, field in arguments if key not in _OURS}
    return by_name


def text() -> str:
    return json.dumps(types(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
