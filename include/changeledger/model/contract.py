"""Contracts: a table's columns and key, agreed once and widened by releases."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Literal

from pydantic import Field

from changeledger.model import growth
from changeledger.model.base_model import Strict
from changeledger.model.column_names import alike, folded, shown
from changeledger.model.errors import ConfigError, ContractError
from changeledger.model.misspelt import meant
from changeledger.model.publishing import PublishRule
from changeledger.model.sql_type import SqlType
from changeledger.model.table_names import RESERVED

# Which end of a change mask holds the first columns (`kernels.masks`).
ByteOrder = Literal["big", "little"]


class Column(Strict):
    """One captured column. `ordinal` is 1-based; the column's bit in a change mask is ordinal - 1.

    `dropped`: the source table no longer has the column, but its capture still does.
    `length_stated`: False if records say only that it has text or bytes; its type is then a max type.
    `large_object`: the writer treats it as a large object, whatever type the feed states.
    `publish`: how it is published; None: unchanged. `hash_key`: which key hashes it (`kernels.publishing`).
    `origin`: the source's column, for a published column that has a publish rule.
    """

    name: str
    type: str
    ordinal: int = Field(ge=1)
    nullable: bool = True
    key_position: int = Field(default=0, ge=0, description="1-based place in the key, 0 outside it")
    computed: bool = False
    dropped: bool = Field(default=False, exclude_if=lambda dropped: not dropped)
    length_stated: bool = Field(default=True, exclude_if=bool)
    large_object: bool = Field(default=False, exclude_if=lambda is_large: not is_large)
    publish: PublishRule | None = Field(default=None, exclude_if=lambda rule: rule is None)
    hash_key: str | None = Field(default=None, exclude_if=lambda key: key is None)
    origin: Column | None = Field(default=None, exclude=True, repr=False)

    @property
    def sql_type(self) -> SqlType:
        return SqlType.parse(self.type)

    @property
    def spark_type(self) -> str:
        return self.sql_type.spark

    @property
    def is_large(self) -> bool:
        return self.sql_type.is_large or self.large_object

    @property
    def is_lob(self) -> bool:
        """Whether deletes may lack the column's value, as they do for `text`, `ntext` and `image`."""
        return self.sql_type.is_lob or not self.length_stated or self.large_object

    def stated_as(self, kind: str, nullable: bool) -> Column:
        """Returns the column as a feed states it. A large object of its writer remains one."""
        large_object = not SqlType.parse(kind).is_large and _may_be_large(self)
        return self.model_copy(update={"type": kind, "nullable": nullable, "large_object": large_object})

    @property
    def published(self) -> Column:
        """The column as published."""
        if self.publish is None:
            return self
        name, kind = self.publish.rename or self.name, self.publish.type_of(self.type)
        plain = {"publish": None, "hash_key": None, "origin": self}
        return self.model_copy(update={"name": name, "type": kind, **plain})


class Contract(Strict):
    """The columns of one source table, in capture order. `table` is `schema.table`."""

    table: str
    columns: tuple[Column, ...]
    # The table's name as the source writes it; None: unknown.
    source_table: str | None = Field(default=None, exclude_if=lambda name: name is None)
    # The database's name as the source writes it; None: unknown.
    source_database: str | None = Field(default=None, exclude_if=lambda name: name is None)
    # The byte order of the table's change masks; None: unknown. Not stored: each window determines it.
    mask_order: ByteOrder | None = Field(default=None, exclude=True)

    @property
    def key(self) -> tuple[Column, ...]:
        return tuple(sorted((c for c in self.columns if c.key_position), key=lambda c: c.key_position))

    def key_named(self, cells: Mapping[str, str]) -> dict[str, str]:
        """Returns the cells by the key columns' names. Raises ConfigError if they are not exactly the key."""
        names = {column.name.lower(): column.name for column in self.key}
        named = {names.get(name.lower(), name): text for name, text in cells.items()}
        if not names or set(named) != set(names.values()):
            said = ", ".join(named) or "nothing"
            raise ConfigError(
                f"the key of {self.table} is {', '.join(names.values()) or 'not known'}; named was {said}",
                f"name each key column once: {' '.join(f'{name}=...' for name in names.values())}",
            )
        return {name: named[name] for name in names.values()}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    @property
    def large(self) -> tuple[bool, ...]:
        """Which columns are large objects, by their type or for their writer."""
        return tuple(c.is_large for c in self.columns)

    def as_large_as(self, other: Contract) -> Contract:
        """Returns the contract with the large objects of `other` marked as large objects.

        The source may have narrowed a column (`nvarchar(max)` to `nvarchar(500)`) since it wrote the records.
        """
        names = {c.name.lower() for c in other.columns if c.is_large}
        columns = (
            c.model_copy(update={"large_object": True}) if c.name.lower() in names and not c.is_large else c
            for c in self.columns
        )
        return self.model_copy(update={"columns": tuple(columns)})

    @property
    def computed(self) -> frozenset[str]:
        """The computed columns outside the key, in lower case: their values are not used (ADR 0017)."""
        return frozenset(c.name.lower() for c in self.columns if c.computed and not c.key_position)

    def with_computed(self, names: Collection[str]) -> Contract:
        """Returns the contract with these columns, named in lower case, marked as computed."""
        columns = (c.model_copy(update={"computed": True}) if c.name.lower() in names else c
                   for c in self.columns)  # fmt: skip
        return self.model_copy(update={"columns": tuple(columns)})

    @property
    def published(self) -> Contract:
        """The contract of the published tables."""
        columns = (c.published for c in self.columns if c.publish is None or not c.publish.drop)
        return self.model_copy(update={"columns": tuple(columns)})

    @property
    def dropped(self) -> tuple[str, ...]:
        """The columns that are not published."""
        return tuple(c.name for c in self.columns if c.publish is not None and c.publish.drop)

    @property
    def unpublished(self) -> Contract:
        """The contract without its publish rules."""
        return self.published_by({}, None)

    def unknown(self, names: Iterable[str]) -> dict[str, str]:
        """Returns the names that are not columns, each with its text for messages and a guess."""
        known = {c.name.lower() for c in self.columns}
        guesses = {name: meant(name, self.names) for name in names if name.lower() not in known}
        return {
            name: shown([name]) + (f", did you mean {shown([near])}?" if near else "")
            for name, near in guesses.items()
        }

    def published_by(self, rules: Mapping[str, PublishRule], hash_key: str | None) -> Contract:
        """Returns the contract with exactly these publish rules, by column. `hash_key`: which key hashes.

        Raises ContractError if a rule names an unknown column, or one that it cannot apply to.
        """
        by_name = {n.lower(): r for n, r in rules.items()}
        for said in self.unknown(name for name, rule in rules.items() if not rule.expected).values():
            raise ContractError(
                f"`publish:` of {self.table} names a column that the table does not have: {said}",
                "correct the name; if the source will add the column, set `expected: true`",
            )
        columns = (self._published_by(c, by_name.get(c.name.lower()), hash_key) for c in self.columns)
        return self.model_copy(update={"columns": tuple(columns)})

    def _published_by(self, column: Column, rule: PublishRule | None, hash_key: str | None) -> Column:
        if rule is None:
            return column.model_copy(update={"publish": None, "hash_key": None})
        named = f"{self.table}.{shown([column.name])}"
        if rule.drop and column.key_position:
            raise ContractError(
                f"{named} is a key column and cannot be left out of what is published",
                "hash it instead: `hash: true` in `publish:` of the feed's YAML",
            )
        try:
            rule.type_of(column.type)
        except ContractError as error:
            raise ContractError(f"{named}: {error.message}", error.remedy) from None
        plain = rule.model_copy(update={"expected": False})
        return column.model_copy(update={"publish": plain, "hash_key": hash_key if rule.hash else None})

    def read_as(self, source_table: str | None, source_database: str | None = None) -> Contract:
        """Returns the contract with the source's own names of table and database, where they are known."""
        names = {"source_table": source_table, "source_database": source_database}
        known = {field: name for field, name in names.items() if name not in {None, getattr(self, field)}}
        return self.model_copy(update=known) if known else self

    @property
    def names_alike(self) -> tuple[str, ...]:
        """The columns whose names Spark cannot distinguish."""
        return alike(self.names)

    def checked(self) -> Contract:
        """Returns the contract. Raises ContractError if it cannot be published."""
        if not self.key:
            raise ContractError(
                f"{self.table} has no key in the records of the feed",
                f"state `key:` for {self.table} in the feed's YAML",
            )
        seen: set[str] = set()
        for column in self.columns:
            try:
                column.sql_type  # noqa: B018 - parses
            except ContractError as error:
                named = shown([column.name])
                raise ContractError(
                    f"{self.table}.{named} has the type {column.type}, which the lake cannot store",
                    f"state the SQL Server type of {named} in `columns:` of the feed's YAML, or leave "
                    "it out of the capture",
                ) from error
            name = folded(column.name)
            if name in seen or name in RESERVED:
                raise ContractError(
                    f"{self.table} has a column {column.name!r} that occurs twice or has a name that the "
                    "ledger itself uses",
                    "if `publish:` of the feed's YAML renames a column to this name, choose another name; "
                    "otherwise rename the column in the source, or leave it out of the capture",
                )
            seen.add(name)
        return self

    def evolved_to(self, newer: Contract) -> Contract:
        """Returns this contract with the columns that `newer` adds, nullable, and the types that it widens.

        A column that `newer` lacks stays: it is no longer captured. Raises ContractError if neither type
        holds all values of the other (naming column, old and new type), if the key or the text of its values
        changed, or if Spark cannot distinguish a new name from an old one.
        """
        known = {c.name.lower(): c for c in self.columns}
        fresh = {c.name.lower(): c for c in newer.columns}
        if [c.name.lower() for c in self.key] != [c.name.lower() for c in newer.key]:
            raise ContractError(
                f"{self.table} changed its key from {[c.name for c in self.key]} "
                f"to {[c.name for c in newer.key]}",
                "publish the table as a new feed that states the new key (`key:`); or state the old key "
                "here, if no two rows share its values",
            )
        for old, new in zip(self.key, newer.key, strict=True):
            growth.require_same_text(self.table, old, new)
        kept = [
            growth.grown(self.table, c, fresh[c.name.lower()]) if c.name.lower() in fresh else c
            for c in self.columns
        ]
        added = [
            c.model_copy(update={"nullable": True}) for c in newer.columns if c.name.lower() not in known
        ]
        evolved = self.model_copy(update={"columns": (*kept, *added)})
        if evolved.names_alike:
            raise ContractError(
                f"{self.table} has columns whose names differ in case only: {shown(evolved.names_alike)}",
                "rename one in the source, or leave it out of the capture",
            )
        return evolved

    def says_all_of(self, newer: Contract) -> bool:
        """Returns whether evolving to `newer` would leave the contract unchanged."""
        try:
            return self.evolved_to(newer) == self
        except ContractError:
            return False

    def in_wider_types(self, other: Contract) -> Contract:
        """Returns the contract in the wider types of the two, which reads the values of both.

        Returns the contract itself if more differs than the size of whole numbers and decimals.
        """
        if len(self.columns) != len(other.columns):
            return self
        columns = []
        for column, another in zip(self.columns, other.columns, strict=True):
            kind = growth.wider(column, another)
            if kind is None or column.model_copy(update={"type": another.type}) != another:
                return self
            columns.append(column.model_copy(update={"type": kind}))
        return self.model_copy(update={"columns": tuple(columns)})


def _may_be_large(column: Column) -> bool:
    """Returns whether values may be large. A type that the lake cannot hold may have values of any size."""
    try:
        return column.is_large
    except ContractError:
        return True
