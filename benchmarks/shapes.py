"""The tables of the benchmarks: each column's type in SQL Server, published type, and cells of Debezium."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

_CITIES = ("Basel", "Bern", "Genf", "Lausanne", "Lugano", "Zürich")
_EPOCH = datetime(1970, 1, 1)
_MOMENT = 1_786_119_900_000
Cells = dict[str, Any]


class Column(NamedTuple):
    """A column. `wire`: Spark's type of its cells in messages; `cell` draws one.

    Decimals are written as with `decimal.handling.mode=string`.
    """

    sql: str
    arrow: pa.DataType
    wire: str
    cell: Callable[[Random], Any]
    # Applies to new rows, and to each update that draws the cell again.
    has_nulls: bool = False

    def drawn(self, rng: Random) -> Any:
        return None if self.has_nulls and rng.random() < 0.5 else self.cell(rng)


class Shape(NamedTuple):
    """A table whose key is `id`, and whose `name` differs in each version of a row.

    `changing`: the columns that an update draws again.
    """

    name: str
    columns: Mapping[str, Column]
    changing: tuple[str, ...]

    @property
    def row(self) -> pa.Schema:
        return pa.schema([(name, column.arrow) for name, column in self.columns.items()])

    def drawn(self, names: Iterable[str], rng: Random) -> Cells:
        return {name: self.columns[name].drawn(rng) for name in names if name not in {"id", "name"}}

    def published(self, cells: Cells) -> Cells:
        """Returns the published row as Python values for Arrow."""
        return {
            name: None if cells[name] is None else _published(cells[name], column)
            for name, column in self.columns.items()
        }


def _published(cell: Any, column: Column) -> Any:
    if pa.types.is_decimal(column.arrow):
        return Decimal(cell)
    if pa.types.is_date(column.arrow):
        return date(1970, 1, 1) + timedelta(days=cell)
    if pa.types.is_timestamp(column.arrow):
        return (
            _EPOCH + timedelta(milliseconds=cell)
            if counts_ms(column)
            else _EPOCH + timedelta(microseconds=cell)
        )
    return cell


def counts_ms(column: Column) -> bool:
    """Returns whether times of this column are in milliseconds; otherwise they are in microseconds."""
    return column.sql == "datetime2(3)"


def _decimal(digits: int, scale: int) -> Callable[[Random], str]:
    def cell(rng: Random) -> str:
        text = f"{rng.randrange(10**digits):0{scale + 1}}"
        return f"{text[:-scale]}.{text[-scale:]}"

    return cell


_KEY = Column("int", pa.int32(), "int", lambda _: None)
_NAME = Column("nvarchar(50)", pa.string(), "string", lambda _: None)
_FLAG = Column("bit", pa.bool_(), "boolean", lambda rng: rng.random() < 0.5)
_DAY = Column("date", pa.date32(), "int", lambda rng: 20_000 + rng.randrange(600))
_MICROS = Column(
    "datetime2(6)", pa.timestamp("us"), "bigint", lambda rng: _MOMENT * 1000 + rng.randrange(10**9)
)

PLAIN = Shape(
    "plain",
    {
        "id": _KEY,
        "name": _NAME,
        "n1": Column("int", pa.int32(), "int", lambda rng: rng.randrange(10**6)),
        "n2": Column("int", pa.int32(), "int", lambda rng: rng.randrange(100) or None),
        "amount": Column("decimal(18,2)", pa.decimal128(18, 2), "decimal(18,2)", _decimal(8, 2)),
        "d": _DAY,
        "ts": _MICROS,
        "flag": _FLAG,
        "city": Column("nvarchar(50)", pa.string(), "string", lambda rng: rng.choice(_CITIES)),
        "x": Column("float", pa.float64(), "double", lambda rng: round(rng.random() * 1000, 4)),
    },
    ("n1", "city"),
)
# Half of the columns have NULLs, in half of their cells.
NULLS = Shape(
    "nulls",
    {
        "id": _KEY,
        "name": _NAME,
        "price": Column(
            "decimal(19,4)", pa.decimal128(19, 4), "decimal(19,4)", _decimal(10, 4), has_nulls=True
        ),
        "rate": Column("decimal(9,6)", pa.decimal128(9, 6), "decimal(9,6)", _decimal(8, 6)),
        "x": Column("float", pa.float64(), "double", lambda rng: rng.random() * 1e6, has_nulls=True),
        "y": Column("float", pa.float64(), "double", lambda rng: rng.gauss(0, 1), has_nulls=True),
        "d": _DAY._replace(has_nulls=True),
        "ts": _MICROS._replace(has_nulls=True),
        "at": Column(
            "datetime2(3)", pa.timestamp("us"), "bigint", lambda rng: _MOMENT + rng.randrange(10**9)
        ),
        "flag": _FLAG,
    },
    ("price", "x", "at"),
)
SHAPES = {shape.name: shape for shape in (PLAIN, NULLS)}
