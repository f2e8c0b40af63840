"""Tables and columns of a feed's YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import field_validator, model_validator

from changeledger.config.expectations import ExpectationConfig
from changeledger.model.base_model import Strict
from changeledger.model.column_names import alike
from changeledger.model.publishing import PublishRule

# Of a table: two parts, nothing that ends a line. The first dot ends the schema.
_TABLE = re.compile(r"[^.\x00-\x1f\x7f]+\.[^\x00-\x1f\x7f]+")


class ColumnConfig(Strict):
    """A column that the user states: `type` is a SQL Server type such as `decimal(18,4)`.

    Of a `computed` column that alone may be stated.
    """

    name: str
    """The name, as in the source."""
    type: str = ""
    """A SQL Server type, such as `decimal(18,4)` ([types.md](types.md))."""
    nullable: bool = True
    """Whether the column can be NULL."""
    computed: bool = False
    """Whether SQL Server computes it; no capture has its values."""

    @model_validator(mode="after")
    def _says_something(self) -> ColumnConfig:
        if not (self.type or self.computed):
            raise ValueError(f"{self.name} needs a type, or `computed: true`")
        return self


class Publishing(Strict):
    """How a table is published. It cannot change once the table is published."""

    columns: Mapping[str, PublishRule] = {}
    """By column, as in the source, how it is published; columns without a rule are published as they are."""

    def __hash__(self) -> int:
        # Decoders keep by plan what they have worked out, and a plan has its table's settings.
        return hash(tuple(sorted(self.columns)))

    @model_validator(mode="after")
    def _names_differ(self) -> Publishing:
        if twice := alike(list(self.columns)):
            raise ValueError(f"columns: two rules for {', '.join(twice)}")
        if twice := alike([rule.rename for rule in self.columns.values() if rule.rename]):
            raise ValueError(f"columns: two are renamed to {twice[0]}")
        return self


class TableConfig(Strict):
    """One source table. Key and columns are given only where the records of the feed do not have them."""

    table: str
    """`schema.table`, as in the source."""
    key: tuple[str, ...] = ()
    """The key's columns, if the records do not name them."""
    columns: tuple[ColumnConfig, ...] = ()
    """The columns, if the records do not have them or have coarser types."""

    expectations: tuple[ExpectationConfig, ...] = ()
    """What the audit checks of the table beside its own rules ([expectations.md](expectations.md))."""

    publish: Publishing = Publishing()
    """What is left out, hashed, cast or renamed ([publishing.md](publishing.md))."""

    @field_validator("table")
    @classmethod
    def _has_two_parts(cls, table: str) -> str:
        if _TABLE.fullmatch(table) is None:
            raise ValueError(f"{table!r} is not `schema.table`")
        return table

    @property
    def stated(self) -> tuple[ColumnConfig, ...]:
        """The columns whose types are stated."""
        return tuple(c for c in self.columns if c.type)

    @model_validator(mode="after")
    def _names_differ(self) -> TableConfig:
        for member, names in (("key", self.key), ("columns", [c.name for c in self.columns])):
            if twice := alike(names):
                raise ValueError(f"{member} names a column twice: {', '.join(twice)}")
        return self

    @model_validator(mode="after")
    def _rules_differ(self) -> TableConfig:
        rules = [expectation.rule for expectation in self.expectations]
        if twice := sorted({name for name in rules if rules.count(name) > 1}):
            raise ValueError(f"two expectations are called {', '.join(twice)}: give them a `name`")
        return self
