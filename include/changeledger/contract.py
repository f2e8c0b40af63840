"""A table's contract: its columns in SQL Server's types, its key, and the types they have in the lake.

Which Spark type holds which SQL Server type, without loss:

* `datetime`, `datetime2`, `smalldatetime` have no zone, so they are `timestamp_ntz`. Spark counts
  microseconds: `datetime2(7)` keeps its seventh digit by staying text (`2026-08-07 16:25:00.8833333`).
* `time(n)` is text (`16:25:00.883`): Spark 4.0 has no time of day.
* `datetimeoffset` is text with its own offset: a Spark timestamp would forget the offset.
* `uniqueidentifier` is upper-case text, as SQL Server prints it.

docs/types.md has the canonical form of each type that is text.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from pydantic import Field

from changeledger.config import ByteOrder
from changeledger.errors import ConfigError, ContractError
from changeledger.names import alike, folded
from changeledger.strict import Strict

_TYPE = re.compile(r"^\s*([a-z_][a-z0-9_ ]*?)\s*(?:\(\s*(max|[0-9]{1,5})\s*(?:,\s*([0-9]{1,5})\s*)?\))?\s*$")

_SIMPLE = {
    "bit": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "int",
    "bigint": "bigint",
    "real": "float",
    "float": "double",
    "money": "decimal(19,4)",
    "smallmoney": "decimal(10,4)",
    "date": "date",
    "datetime": "timestamp_ntz",
    "smalldatetime": "timestamp_ntz",
    "time": "string",
    "datetimeoffset": "string",
    "uniqueidentifier": "string",
    "char": "string",
    "varchar": "string",
    "nchar": "string",
    "nvarchar": "string",
    "text": "string",
    "ntext": "string",
    "sysname": "string",
    "xml": "string",
    "sql_variant": "string",
    "hierarchyid": "binary",
    "geometry": "binary",
    "geography": "binary",
    "binary": "binary",
    "varbinary": "binary",
    "image": "binary",
    "timestamp": "binary",
    "rowversion": "binary",
}

# Their before image is NULL on update and delete, always (specs: large object data types).
_LOB = {"text", "ntext", "image"}
_MAX_TYPES = {"varchar", "nvarchar", "varbinary"}
_DECIMALS = {"decimal", "numeric"}
# The least and the greatest size of the types whose lake type or values follow from it.
_SIZES = {
    "decimal": (1, 38),
    "numeric": (1, 38),
    "float": (1, 53),
    "time": (0, 7),
    "datetime2": (0, 7),
    "datetimeoffset": (0, 7),
}


class SqlType(NamedTuple):
    """A SQL Server type taken apart: `decimal(18,4)` is `("decimal", 18, 4)`; `max` is -1."""

    base: str
    length: int | None = None
    scale: int | None = None

    @classmethod
    def parse(cls, text: str) -> SqlType:
        """Raises ContractError when `text` is not a SQL Server type that the lake can hold."""
        match = _TYPE.match(text.lower())
        if match is not None:
            length = None if match[2] is None else -1 if match[2] == "max" else int(match[2])
            told = cls(match[1], length, None if match[3] is None else int(match[3]))
            if told._is_known and told._is_in_range:
                return told
        raise ContractError(
            f"{text!r} is not a SQL Server type",
            "write the column's type as SQL Server does, for example decimal(18,4) or nvarchar(50)",
        )

    @property
    def _is_known(self) -> bool:
        return self.base in _SIMPLE or self.base in _DECIMALS or self.base == "datetime2"

    @property
    def _is_in_range(self) -> bool:
        least, most = _SIZES.get(self.base, (-1, None))
        if self.length is not None and (self.length < least or (most is not None and self.length > most)):
            return False
        return self.base not in _DECIMALS or (self.scale or 0) <= (18 if self.length is None else self.length)

    @property
    def spark(self) -> str:
        if self.base in _DECIMALS:
            return f"decimal({18 if self.length is None else self.length},{self.scale or 0})"
        if self.base == "datetime2":
            return "timestamp_ntz" if self.fraction_digits <= 6 else "string"
        return _SIMPLE[self.base]

    @property
    def fraction_digits(self) -> int:
        """Digits of a second that a time type keeps; SQL Server's default is 7."""
        if self.base == "datetime":
            return 3
        if self.base == "smalldatetime":
            return 0
        return 7 if self.length is None else self.length

    @property
    def scale_of_decimal(self) -> int:
        """Of the decimal that holds it in the lake."""
        return SqlType.parse(self.spark).scale or 0

    @property
    def is_lob(self) -> bool:
        return self.base in _LOB

    @property
    def is_large(self) -> bool:
        """Can a value be larger than 8,000 bytes? To Qlik it is a large object; CES may have cut it."""
        return self.is_max or self.is_lob or self.base in {"xml", "geometry", "geography"}

    @property
    def is_max(self) -> bool:
        return self.base in _MAX_TYPES and self.length == -1


class Column(Strict):
    """One captured column. `ordinal` is 1-based; the column's bit in a change mask is ordinal - 1."""

    name: str
    type: str
    ordinal: int = Field(ge=1)
    nullable: bool = True
    key_position: int = Field(default=0, ge=0, description="1-based place in the key, 0 outside it")
    computed: bool = False

    @property
    def sql_type(self) -> SqlType:
        return SqlType.parse(self.type)

    @property
    def spark_type(self) -> str:
        return self.sql_type.spark


class Contract(Strict):
    """The columns of one source table, in capture order. `table` is `schema.table`."""

    table: str
    columns: tuple[Column, ...]
    # The byte order of the table's change masks; None: not settled. Not stored: each window settles it.
    mask_order: ByteOrder | None = Field(default=None, exclude=True)

    @property
    def key(self) -> tuple[Column, ...]:
        return tuple(sorted((c for c in self.columns if c.key_position), key=lambda c: c.key_position))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    @property
    def computed(self) -> frozenset[str]:
        """The computed columns outside the key, in lower case: their values are not used (ADR 0017)."""
        return frozenset(c.name.lower() for c in self.columns if c.computed and not c.key_position)

    def with_computed(self, names: Collection[str]) -> Contract:
        """The contract, these columns (in lower case) among its computed ones."""
        columns = (c.model_copy(update={"computed": True}) if c.name.lower() in names else c
                   for c in self.columns)  # fmt: skip
        return self.model_copy(update={"columns": tuple(columns)})

    @property
    def names_alike(self) -> tuple[str, ...]:
        """The columns that Spark cannot tell apart by their names."""
        return alike(self.names)

    def checked(self) -> Contract:
        """The contract, once it can be published. Raises ContractError where it cannot."""
        if not self.key:
            raise ContractError(
                f"{self.table} has no key that the feed tells",
                f"state `key:` for {self.table} in the feed's YAML",
            )
        seen: set[str] = set()
        for column in self.columns:
            try:
                column.sql_type  # noqa: B018 - parses
            except ContractError as error:
                raise ContractError(
                    f"{self.table}.{column.name} has the type {column.type}, which has no place in the lake",
                    f"state the SQL Server type of {column.name} in `columns:` of the feed's YAML, or leave "
                    "it out of the capture",
                ) from error
            name = folded(column.name)
            if name in seen or name in RESERVED:
                raise ContractError(
                    f"{self.table} has a column {column.name!r} that is there twice or is the ledger's own",
                    "rename the column in the feed's `columns:`, or leave it out of the capture",
                )
            seen.add(name)
        return self

    def evolved_to(self, newer: Contract) -> Contract:
        """This contract with the columns that `newer` adds, as nullable ones, and the types it widens.

        A column that `newer` lacks stays (it is not captured any more). Raises ContractError naming
        column, old and new type where the values of one type do not all fit the other, or where the key
        changed, or where a new name is one of the old ones to Spark.
        """
        known = {c.name.lower(): c for c in self.columns}
        fresh = {c.name.lower(): c for c in newer.columns}
        if [c.name.lower() for c in self.key] != [c.name.lower() for c in newer.key]:
            raise ContractError(
                f"{self.table} changed its key from {[c.name for c in self.key]} "
                f"to {[c.name for c in newer.key]}",
                "publish the new shape as a new feed, or state `key:` in the feed's YAML",
            )
        kept = [self._grown(c, fresh[c.name.lower()]) if c.name.lower() in fresh else c for c in self.columns]
        added = [
            c.model_copy(update={"nullable": True}) for c in newer.columns if c.name.lower() not in known
        ]
        evolved = self.model_copy(update={"columns": (*kept, *added)})
        if evolved.names_alike:
            raise ContractError(
                f"{self.table} has columns whose names differ in no more than their case: {evolved.names}",
                "rename one in the feed's `columns:`, or leave it out of the capture",
            )
        return evolved

    def _grown(self, old: Column, new: Column) -> Column:
        """The newer column in the wider of the two types, under the name that the lake has."""
        if old.spark_type == new.spark_type or _holds(new.spark_type, old.spark_type):
            return new.model_copy(update={"name": old.name})
        if _holds(old.spark_type, new.spark_type):
            return new.model_copy(update={"name": old.name, "type": old.type})
        raise ContractError(
            f"{self.table}.{old.name} changed its type from {old.type} to {new.type}",
            "publish the new shape as a new feed, or state the old type in the feed's `columns:`",
        )


# Spark's whole numbers in the order in which each holds the one before it.
_WHOLE = ("smallint", "int", "bigint")


def _holds(wide: str, narrow: str) -> bool:
    """Does a lake column of type `wide` hold every value of `narrow`, by Iceberg's rules of promotion?"""
    if wide in _WHOLE and narrow in _WHOLE:
        return _WHOLE.index(wide) >= _WHOLE.index(narrow)
    if (wide, narrow) == ("double", "float"):
        return True
    if wide.startswith("decimal") and narrow.startswith("decimal"):
        one, other = SqlType.parse(wide), SqlType.parse(narrow)
        return one.scale == other.scale and (one.length or 0) >= (other.length or 0)
    return False


# Columns that the ledger adds to published rows.
RESERVED = frozenset(
    {
        "_change_id", "_operation", "_sort_key", "_commit_lsn", "_committed_at", "_gaps", "_run_id",
        "_valid_from", "_valid_to", "_next_sort_key", "_is_deleted", "_previous_key",
        "_break",
        # Iceberg's metadata columns.
        "_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number",
        "_commit_snapshot_id", "_change_type", "_change_ordinal",
    }
)  # fmt: skip

_UNSAFE = re.compile(r"[^a-z0-9_]+")


class TableNames(NamedTuple):
    """The lake's tables for one source table of one feed, as Spark SQL identifiers."""

    current: str
    history: str
    changes: str

    @classmethod
    def of(cls, namespace: str, table: str) -> TableNames:
        """`dbo.Order Lines` in feed `shop_cdc` is `lake.shop_cdc.dbo_order_lines` and its siblings."""
        base = _UNSAFE.sub("_", table.lower())
        return cls(*(f"lake.{namespace}.{base}{suffix}" for suffix in ("", "_history", "_changes")))


def distinct_names(namespace: str, tables: list[str]) -> dict[str, TableNames]:
    """Lake names by table. Raises ConfigError when two tables would share one."""
    names = {table: TableNames.of(namespace, table) for table in tables}
    # A feed of change tables has a raw table beside each.
    raw = [group.current.replace(f"lake.{namespace}.", f"lake.{namespace}.raw_") for group in names.values()]
    everything = [*raw, *(name for group in names.values() for name in group)]
    twice = sorted({n for n in everything if everything.count(n) > 1})
    if twice:
        raise ConfigError(
            f"two source tables would both be {twice[0]}", "put one of them into a feed of its own"
        )
    return names
