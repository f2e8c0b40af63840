"""Expectations that users add to a table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from changeledger.config import expectation_types
from changeledger.model.base_model import Strict
from changeledger.model.errors import ConfigError

_NAME = r"^([a-z][a-z0-9_]{0,62})?$"
_TABLES = ("current", "history", "changes")


class ExpectationConfig(Strict):
    """One expectation: a type of Great Expectations with its arguments, or `sql`."""

    name: str = Field(default="", pattern=_NAME)
    """What verdicts and pages call it; `sql` needs one. Else: the type and its columns."""
    expect: dict[str, dict[str, Any]] = Field(default={}, max_length=1)
    """The type and its arguments. The type may also stand in place of `expect`
    ([expectations.md](expectations.md))."""
    sql: str = ""
    """A SELECT of `current`, `history` or `changes` that returns the rows that are wrong."""
    on: Literal["current", "history", "changes"] = "current"
    """The table of the run's branch that a type of Great Expectations is about."""
    severity: Literal["critical", "error", "warning"] = "error"
    """A failed `warning` is reported, an `error` stops the run unless a person tolerates it, a `critical` one
    always stops it."""
    scope: Literal["touched", "all"] = "touched"
    """The rows that the run has written, or `all` rows."""
    note: str = ""
    """What the page says of it."""

    @model_validator(mode="before")
    @classmethod
    def _type_by_its_name(cls, data: Any) -> Any:
        """`expect_...: {...}` is `expect: {expect_...: {...}}`."""
        if not isinstance(data, dict):
            return data
        types = {key: value or {} for key, value in data.items() if str(key).startswith("expect_")}
        if not types:
            return data
        rest = {key: value for key, value in data.items() if key not in types}
        return {**rest, "expect": {**rest.get("expect", {}), **types}}

    @model_validator(mode="after")
    def _says_what_to_check(self) -> ExpectationConfig:
        if bool(self.expect) == bool(self.sql):
            raise ValueError("an expectation has either one type of Great Expectations, or `sql`")
        for kind, arguments in self.expect.items():
            expectation_types.require(kind, arguments)
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
        """Its name in verdicts."""
        return self.name or re.sub(r"\W+", "_", "_".join([self.kind, *self.columns]))

    @property
    def kind(self) -> str:
        return next(iter(self.expect), "")

    @property
    def arguments(self) -> dict[str, Any]:
        return self.expect.get(self.kind, {})

    @property
    def columns(self) -> list[str]:
        return expectation_types.columns(self.arguments)


class ExpectationsFile(Strict):
    """A file in `include/expectations/<feed>/`: more expectations of one table."""

    table: str
    """`schema.table`, as in the feed."""
    expectations: tuple[ExpectationConfig, ...] = Field(min_length=1)
    """Its expectations."""


def with_tables(sql: str, tables: Mapping[str, str]) -> str:
    """The query, whose tables are those queries. Raises ConfigError if it does not only read."""
    # Few feeds have SQL, and all DAGs are parsed.
    from changeledger.read_only_sql.check import checked  # noqa: PLC0415

    views = ", ".join(f"{name} AS ({query})" for name, query in tables.items())
    return checked(f"WITH {views} SELECT * FROM (\n{sql}\n)").text  # noqa: S608 - it is checked
