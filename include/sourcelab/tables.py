"""The tables of the simulated database `shop`, with most column types and most traps."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

DATABASE = "shop"

Row = dict[str, Any]
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Column:
    """One captured column. `type` is SQL Server's text; `ordinal` counts from 1 in the capture instance."""

    name: str
    type: str
    ordinal: int
    nullable: bool = False
    computed: bool = False

    @cached_property
    def base(self) -> str:
        return self.type.partition("(")[0]

    @cached_property
    def arguments(self) -> tuple[int, ...]:
        """The numbers of the type: (18, 4) for `decimal(18,4)`, (-1,) for `nvarchar(max)`, () for `int`."""
        return tuple(
            -1 if a == "max" else int(a) for a in re.findall(r"max|\d+", self.type.partition("(")[2])
        )

    @cached_property
    def is_max(self) -> bool:
        return self.arguments == (-1,)

    @cached_property
    def is_large(self) -> bool:
        """Whether values are stored as large objects, which an update need not log if they are unchanged."""
        return self.is_max or self.base == "xml"

    @cached_property
    def decimal(self) -> tuple[int, int] | None:
        """Precision and scale of an exact number with a scale, or None for other types."""
        if self.base == "money":
            return (19, 4)
        if self.base == "decimal":
            precision, scale = self.arguments
            return (precision, scale)
        return None


@dataclass(frozen=True)
class Table:
    """A captured table. An identity key is never updated, which SQL Server forbids."""

    schema: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    identity: bool = False

    @cached_property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"

    @cached_property
    def capture_instance(self) -> str:
        return f"{self.schema}_{self.name}"

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    @cached_property
    def free_columns(self) -> tuple[Column, ...]:
        """The columns outside the key."""
        return tuple(c for c in self.columns if c.name not in self.key)

    def captured(self, row: Row) -> Row:
        """Returns the row as SQL Server's capture has it: computed columns are NULL."""
        return row | {c.name: None for c in self.columns if c.computed}

    def key_of(self, row: Row) -> Key:
        return tuple(row[name] for name in self.key)


def _table(name: str, key: str, columns: str, identity: bool = False) -> Table:
    """Defines a table. Columns are written as in CREATE TABLE, one per line: `name type [NULL]`."""
    schema, _, short = name.partition(".")
    lines = [line.split() for line in columns.strip().splitlines()]
    table_columns = tuple(
        Column(n, kind, at, bool(null)) for at, (n, kind, *null) in enumerate(lines, start=1)
    )
    return Table(schema, short, table_columns, tuple(key.split()), identity)


def _wide_columns() -> str:
    kinds = ("int NULL", "nvarchar(40) NULL", "decimal(12,2) NULL", "int", "nvarchar(40)")
    return "id int\n" + "\n".join(f"c{n:02} {kinds[n % len(kinds)]}" for n in range(1, 100))


CUSTOMERS = _table(
    "dbo.customers",
    "id",
    """
    id int
    name nvarchar(50)
    email nvarchar(100) NULL
    active bit
    credit decimal(18,4)
    created_at datetime2(3)
    seen_at datetime2(6) NULL
    born date NULL
    notes nvarchar(max) NULL
    """,
    identity=True,
)
ORDERS = _table(
    "sales.orders",
    "region order_no",
    """
    region char(2)
    order_no bigint
    total money
    ordered_at datetime
    weight real NULL
    ratio float NULL
    priority tinyint
    stock smallint NULL
    status char(10) NULL
    """,
)
PARTS = _table(
    "dbo.parts",
    "part_id",
    """
    part_id uniqueidentifier
    digest varbinary(50) NULL
    code varchar(30)
    price decimal(38,10) NULL
    opens_at time(3) NULL
    changed_at datetimeoffset(7) NULL
    document xml NULL
    """,
)
WIDE = _table("dbo.wide", "id", _wide_columns())

TABLES = (CUSTOMERS, ORDERS, PARTS, WIDE)
