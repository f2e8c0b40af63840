"""Tables and columns of a feed's YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import field_validator, model_validator

from changeledger.config.expectations import ExpectationConfig
from changeledger.model.base_model import Strict
from changeledger.model.column_names import alike
from changeledger.model.errors import ContractError
from changeledger.model.publishing import PublishRule
from changeledger.model.sql_type import SqlType

# A table's name: two parts without control characters. The first dot ends the schema.
_TABLE = re.compile(r"[^.\x00-\x1f\x7f]+\.[^\x00-\x1f\x7f]+")


class ColumnConfig(Strict):
    """A column that the user states. `type` is a SQL Server type such as `decimal(18,4)`.

    A `computed` column needs no type.
    """

    name: str
    """The name, as in the source."""
    type: str = ""
    """A SQL Server type, such as `decimal(18,4)` ([types.md](types.md))."""
    nullable: bool = True
    """Whether the column can be NULL."""
    computed: bool = False
    """Whether SQL Server or the capturing task computes the column; its values are not published."""

    @field_validator("type")
    @classmethod
    def _is_a_type(cls, kind: str) -> str:
        try:
            if kind:
                SqlType.parse(kind)
        except ContractError as error:
            raise ValueError(f"{error.message}: {error.remedy}") from None
        return kind

    @model_validator(mode="after")
    def _says_something(self) -> ColumnConfig:
        if not (self.type or self.computed):
            raise ValueError(f"{self.name} needs a type, or `computed: true`")
        return self


class Publishing(Strict):
    """How a table is published. It cannot change once the table is published."""

    columns: Mapping[str, PublishRule] = {}
    """How each column is published, by its name in the source. Columns without a rule are published as they
    are."""

    def __hash__(self) -> int:
        # Decoders cache their work by plan, and a plan contains its table's settings.
        return hash(tuple(sorted(self.columns)))

    @model_validator(mode="after")
    def _names_differ(self) -> Publishing:
        if twice := alike(list(self.columns)):
            raise ValueError(f"columns: two rules for {', '.join(twice)}")
        if twice := alike([rule.rename for rule in self.columns.values() if rule.rename]):
            raise ValueError(f"columns: two columns are renamed to {twice[0]}")
        return self


class TableConfig(Strict):
    """One source table. Key and columns are given only if the feed's records do not contain them."""

    table: str
    """`schema.table`, as in the source."""
    key: tuple[str, ...] = ()
    """The key's columns, if the records do not name them."""
    columns: tuple[ColumnConfig, ...] = ()
    """The columns, if the records do not describe them or have coarser types."""

    expectations: tuple[ExpectationConfig, ...] = ()
    """What the audit checks in addition to its own rules ([expectations.md](expectations.md))."""

    publish: Publishing = Publishing()
    """Which columns are left out, hashed, cast or renamed ([publishing.md](publishing.md))."""

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
        rules = [expectation.rule for expectation in self.expectations]
        if same := sorted({name for name in rules if rules.count(name) > 1}):
            raise ValueError(f"two expectations are called {', '.join(same)}: give each a `name`")
        return self

    @model_validator(mode="after")
    def _publishes_what_it_states(self) -> TableConfig:
        """Raises ValueError for what contradicts `publish:`, as far as the file itself shows it."""
        rules = {name.lower(): rule for name, rule in self.publish.columns.items()}
        for name in self.key:
            if name.lower() in rules and rules[name.lower()].drop:
                raise ValueError(f"`publish:` leaves out {name}, a key column: hash it instead")
        for column in self.stated:
            try:
                if column.name.lower() in rules:
                    rules[column.name.lower()].type_of(column.type)
            except ContractError as error:
                raise ValueError(f"`publish:` of {column.name}: {error.message}") from None
        for expectation in self.expectations:
            _require_published(expectation, rules)
        return self


def _require_published(expectation: ExpectationConfig, rules: Mapping[str, PublishRule]) -> None:
    """Raises ValueError if the expectation names a column that is not published, or under another name.

    `rules`: by column name in lower case.
    """
    new_names = {rule.rename.lower() for rule in rules.values()}
    for name in expectation.columns if expectation.on != "changes" else ():
        rule = rules.get(name.lower())
        if rule is None or name.lower() in new_names or not (rule.drop or rule.rename):
            continue
        how = f"publishes as {rule.rename}" if rule.rename else "leaves out"
        raise ValueError(f"the expectation {expectation.rule} is about {name}, which `publish:` {how}")
