"""Expectations that users add to a table."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, model_validator

from changeledger.model.base_model import Strict
from changeledger.model.errors import ConfigError
from changeledger.model.misspelt import meant

_NAME = r"^([a-z][a-z0-9_]{0,62})?$"
_TABLES = ("current", "history", "changes")
# The types of Great Expectations that users can name, with their arguments. `scripts/expectation_types.py`
# writes the file, because importing Great Expectations takes seconds.
FILE: Final = Path(__file__).with_name("expectation_types.json")
_COLUMNS = {"column", "column_A", "column_B", "column_list"}
# Great Expectations reads bounds as doubles: from here on two whole numbers may be the same double.
_INEXACT = 2**53
_BOUNDS = {"min_value", "max_value", "sum_total"}
_OF_MEMBERS = {"partition_object", "quantile_ranges"}
# A type that has arguments of one of these groups, but a value for none of them, always holds.
_SAYING = (
    ("min_value", "max_value", "threshold"), ("regex",), ("type_list",), ("column_list",), ("column_set",),
    ("partition_object",),
)  # fmt: skip


class ExpectationConfig(Strict):
    """One expectation: a type of Great Expectations with its arguments, or `sql`."""

    name: str = Field(default="", pattern=_NAME)
    """The name in verdicts and pages. Required for `sql`; otherwise the default is the type and its
    columns."""
    expect: dict[str, dict[str, Any]] = Field(default={}, max_length=1)
    """The type and its arguments. The type may also be written in place of `expect`
    ([expectations.md](expectations.md))."""
    sql: str = ""
    """A SELECT of `current`, `history` or `changes` that returns the wrong rows."""
    on: Literal["current", "history", "changes"] = "current"
    """The table that a type of Great Expectations checks, on the run's branch."""
    severity: Literal["critical", "error", "warning"] = "error"
    """What a failure does: `warning` is reported, `error` stops the run unless a person tolerates it,
    `critical` always stops it."""
    scope: Literal["touched", "all"] = "touched"
    """Which rows are checked: those that the run has written (`touched`), or `all`."""
    note: str = ""
    """A sentence that the page shows."""

    @model_validator(mode="before")
    @classmethod
    def _type_by_its_name(cls, data: Any) -> Any:
        """Reads `expect_...: {...}` as `expect: {expect_...: {...}}`."""
        if not isinstance(data, dict):
            return data
        types = {key: value or {} for key, value in data.items() if str(key).startswith("expect_")}
        if not types:
            return data
        rest = {key: value for key, value in data.items() if key not in types}
        expect = rest.get("expect", {})
        return {**rest, "expect": {**expect, **types}} if isinstance(expect, dict) else data

    @model_validator(mode="after")
    def _says_what_to_check(self) -> ExpectationConfig:
        if bool(self.expect) == bool(self.sql):
            raise ValueError("an expectation has either one type of Great Expectations, or `sql`")
        for kind, arguments in self.expect.items():
            _require(kind, arguments)
        if self.sql:
            if not self.name:
                raise ValueError("`sql` needs a `name`")
            try:
                with_tables(self.sql, dict.fromkeys(_TABLES, "SELECT 1 AS `a`"))
            except ConfigError as error:
                raise ValueError(error.message) from None
        return self

    @property
    def rule(self) -> str:
        """The expectation's name in verdicts."""
        return self.name or re.sub(r"\W+", "_", "_".join([self.kind, *self.columns]))

    @property
    def kind(self) -> str:
        return next(iter(self.expect), "")

    @property
    def arguments(self) -> dict[str, Any]:
        return self.expect.get(self.kind, {})

    @property
    def columns(self) -> list[str]:
        return _columns_of(self.arguments)


class ExpectationsFile(Strict):
    """A file in `include/expectations/<feed>/`: more expectations of one table."""

    table: str
    """`schema.table`, as in the feed."""
    expectations: tuple[ExpectationConfig, ...] = Field(min_length=1)
    """Its expectations."""


def with_tables(sql: str, tables: Mapping[str, str]) -> str:
    """Returns the query with `tables`, queries by name, as its tables. Raises ConfigError if it may write."""
    # Imported here because Airflow parses all DAGs, and few feeds have SQL.
    from changeledger.read_only_sql.check import bare, checked  # noqa: PLC0415

    views = ", ".join(f"{name} AS ({query})" for name, query in tables.items())
    return checked(f"WITH {views} SELECT * FROM (\n{bare(sql)}\n)").text  # noqa: S608 - it is checked


@cache
def known() -> dict[str, dict[str, bool]]:
    """Returns the arguments of each type, and whether each argument is required."""
    types: dict[str, dict[str, bool]] = json.loads(FILE.read_text("utf-8"))
    return types


def _require(kind: str, arguments: Mapping[str, Any]) -> None:
    """Raises ValueError if Great Expectations cannot check this as written.

    That is: the type or an argument is unknown, a required argument is missing, or Great Expectations would
    not compare with a value as it is.
    """
    if kind not in known():
        raise ValueError(f"unknown expectation {kind!r}{_guess(kind, known())}")
    parameters = known()[kind]
    for name in arguments:
        if name not in parameters:
            raise ValueError(f"{kind} has no argument {name!r}{_guess(name, parameters)}")
    _require_values(kind, {name for name, value in arguments.items() if value is not None})
    for name in _columns_of(arguments):
        if not isinstance(name, str):
            raise ValueError(f"{kind}: the name of a column is text, not {name!r}: write it in quotes")
        if set(name) & set(".`"):
            raise ValueError(f"Great Expectations cannot name the column {name!r} in Spark: use `sql`")
    for name, value in arguments.items():
        if why := _altered(name, value):
            raise ValueError(f"{kind}: {name} {why}")


def _require_values(kind: str, given: set[str]) -> None:
    """Raises ValueError if a necessary value is missing. `given`: the arguments that have a value."""
    parameters = known()[kind]
    missing = [name for name, is_required in parameters.items() if is_required and name not in given]
    if missing:
        raise ValueError(f"{kind} needs {', '.join(missing)}")
    for choice in _SAYING:
        names = [name for name in choice if name in parameters]
        if names and not given.intersection(names):
            raise ValueError(
                f"{kind} would always pass, whatever the table contains: it needs {' or '.join(names)}"
            )


def _altered(name: str, value: Any) -> str:
    """Says why Great Expectations would compare with another value, and what to do. Empty if it would not."""
    values = value if isinstance(value, list | set | tuple) else [value]
    if isinstance(value, dict) and name not in _OF_MEMBERS:
        return "has members: write a value, or a list such as [open, paid]"
    if any(isinstance(v, bytes) for v in values):
        return "has bytes, which it does not compare with a column's: use `sql`"
    if name == "value_set" and None in values:
        return (
            "has null, and with it Spark takes every value for one of the set: leave null out, because NULLs "
            "are skipped anyway"
        )
    if name in _BOUNDS and _is_inexact(value):
        return f"is {value}, which it cannot compare exactly: use `sql`"
    return ""


def _is_inexact(bound: Any) -> bool:
    """Returns whether the bound is a whole number, or the text of a number, too large for an exact double."""
    try:
        return isinstance(bound, int | str) and abs(Decimal(bound)) >= _INEXACT
    except InvalidOperation:
        return False


def _columns_of(arguments: Mapping[str, Any]) -> list[Any]:
    """Returns the columns that an expectation is about, as the file writes them."""
    names: list[Any] = []
    for name in sorted(_COLUMNS & arguments.keys()):
        value = arguments[name]
        names += value if isinstance(value, list) else [value]
    return names


def _guess(name: str, names: Mapping[str, Any]) -> str:
    near = meant(name, names)
    return f", did you mean `{near}`?" if near else f": choose from {', '.join(names)}"
