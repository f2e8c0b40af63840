"""Tables of rare values (`rare_values`), their changes, and their types in Debezium and Qlik."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, NamedTuple

from changeledger.model.contract import Column, Contract
from tests.dialects.rare_values import LARGE, NOT_SENT, RARE, Rare

_TIME = "io.debezium.time."
_NANOS = ("int64", f"{_TIME}NanoTimestamp")
DECIMAL = "org.apache.kafka.connect.data.Decimal"
# By type: Debezium's field (type, name), in adaptive mode except for datetime2(7), and Qlik's type.
_TYPES: dict[str, tuple[tuple[str, str | None], str]] = {
    "bit": (("boolean", None), "BOOLEAN"),
    "tinyint": (("int16", None), "UINT1"),
    "smallint": (("int16", None), "INT2"),
    "int": (("int32", None), "INT4"),
    "bigint": (("int64", None), "INT8"),
    "smallmoney": (("bytes", DECIMAL), "NUMERIC"),
    "money": (("bytes", DECIMAL), "NUMERIC"),
    "decimal": (("bytes", DECIMAL), "NUMERIC"),
    "numeric": (("bytes", DECIMAL), "NUMERIC"),
    "float": (("double", None), "REAL8"),
    "real": (("float", None), "REAL4"),
    "char": (("string", None), "STRING"),
    "nchar": (("string", None), "WSTRING"),
    "varchar": (("string", None), "STRING"),
    "nvarchar": (("string", None), "WSTRING"),
    "varchar(max)": (("string", None), "CLOB"),
    "nvarchar(max)": (("string", None), "NCLOB"),
    "text": (("string", None), "CLOB"),
    "ntext": (("string", None), "NCLOB"),
    "xml": (("string", "io.debezium.data.Xml"), "CLOB"),
    "uniqueidentifier": (("string", None), "STRING"),
    "binary": (("bytes", None), "BYTES"),
    "varbinary": (("bytes", None), "BYTES"),
    "varbinary(max)": (("bytes", None), "BLOB"),
    "image": (("bytes", None), "BLOB"),
    "rowversion": (("bytes", None), "BYTES"),
    "hierarchyid": (("bytes", None), ""),
    "date": (("int32", f"{_TIME}Date"), "DATE"),
    "time(0)": (("int32", f"{_TIME}Time"), "STRING"),
    "time(3)": (("int32", f"{_TIME}Time"), "STRING"),
    "time(5)": (("int64", f"{_TIME}MicroTime"), "STRING"),
    "time(7)": (("int64", f"{_TIME}NanoTime"), "STRING"),
    "smalldatetime": (("int64", f"{_TIME}Timestamp"), "DATETIME"),
    "datetime": (("int64", f"{_TIME}Timestamp"), "DATETIME"),
    "datetime2(3)": (("int64", f"{_TIME}Timestamp"), "DATETIME"),
    "datetime2(6)": (("int64", f"{_TIME}MicroTimestamp"), "DATETIME"),
    "datetime2(7)": (("string", f"{_TIME}IsoTimestamp"), "DATETIME"),
    "datetimeoffset": (("string", f"{_TIME}ZonedTimestamp"), "STRING"),
}
# Length and scale of types whose name does not state them.
_SIZES = {"smallmoney": (10, 4), "money": (19, 4), "datetime": (23, 3), "smalldatetime": (16, 0)}
# Debezium's length of a max type.
_MAX = 2_147_483_647
_WITH_FRACTION = {"time", "datetime2", "datetimeoffset"}
# The most columns that an index of SQL Server has.
_KEY_COLUMNS = 32


class RareTable(NamedTuple):
    """A table with a number `n` and a column for each type. Its key is `n`, or the other columns."""

    name: str
    # By column, the values of its type. A row with a higher number begins again with the first.
    columns: dict[str, tuple[Rare, ...]]
    is_key: bool

    @property
    def names(self) -> tuple[str, ...]:
        return ("n", *self.columns)

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(self.columns) if self.is_key else ("n",)

    def row(self, number: int) -> dict[str, Rare]:
        return {name: values[number % len(values)] for name, values in self.columns.items()}

    def contract(self) -> Contract:
        place = {name: at for at, name in enumerate(self.key, 1)}
        types = {"n": "int", **{name: values[0].sql_type for name, values in self.columns.items()}}
        columns = (
            Column(name=name, type=sql_type, ordinal=at, key_position=place.get(name, 0))
            for at, (name, sql_type) in enumerate(types.items(), 1)
        )
        return Contract(table=f"dbo.{self.name}", columns=tuple(columns))

    def bits(self, names: Collection[str]) -> int:
        return sum(1 << at for at, name in enumerate(self.names) if name in names)


class Change(NamedTuple):
    """A change of a row of rare values."""

    # In the log, from 0.
    number: int
    table: RareTable
    values: dict[str, Rare]
    operation: str

    def image(self, side: str, form: str) -> dict[str, Any] | None:
        """Returns the row before or after the change in a dialect's form, or None.

        An update sets values to NULL, unless they are a key. An old image does not have large values.
        """
        if (self.operation, side) in {("insert", "before"), ("delete", "after")}:
            return None
        is_update, is_old = self.operation == "update", side == "before"
        lacks = is_update and not is_old and not self.table.is_key
        cells = {
            name: None if lacks or (is_old and value in LARGE) else value.written(form)
            for name, value in self.values.items()
        }
        return {"n": self.number + (is_update and is_old and self.table.is_key), **cells}

    @property
    def changed(self) -> tuple[str, ...]:
        """The columns that an update changes."""
        return ("n",) if self.table.is_key else tuple(self.table.columns)

    @property
    def masked(self) -> tuple[str, ...]:
        """The columns in Qlik's mask."""
        by_operation = {"insert": self.table.names, "update": self.changed, "delete": self.table.key}
        return by_operation[self.operation]

    @property
    def slot(self) -> str:
        """The last two bytes of the LSN."""
        return f"{self.number + 1:04X}"


def changes(form: str) -> list[Change]:
    """Returns the changes of all values that a dialect has: as columns, and as parts of keys."""
    by_type: dict[tuple[str, bool], list[Rare]] = {}
    for value in RARE:
        if value.written(form) is not NOT_SENT:
            by_type.setdefault((value.sql_type, value.nanos), []).append(value)
    columns = {f"c{at}": tuple(values) for at, values in enumerate(by_type.values())}
    parts = [item for item in columns.items() if item[1][0] not in LARGE]
    keys = [dict(parts[at : at + _KEY_COLUMNS]) for at in range(0, len(parts), _KEY_COLUMNS)]
    tables = [RareTable("columns", columns, is_key=False)]
    tables += [RareTable(f"keys{at}", key, is_key=True) for at, key in enumerate(keys)]
    todo = [
        (table, table.row(number), operation)
        for table in tables
        for number in range(max(map(len, table.columns.values())))
        for operation in (("insert", "update", "delete") if table.is_key else ("insert", "update"))
    ]
    return [Change(number, *change) for number, change in enumerate(todo)]


def debezium_type(value: Rare) -> tuple[str, str | None]:
    """Returns a field's type and name."""
    return _NANOS if value.nanos else _of_type(value.sql_type)[0]


def qlik_type(sql_type: str) -> str:
    return _of_type(sql_type)[1]


def _of_type(sql_type: str) -> tuple[tuple[str, str | None], str]:
    return _TYPES.get(sql_type) or _TYPES[sql_type.partition("(")[0]]


def sized(sql_type: str) -> tuple[str, int | None, int | None]:
    """Returns a type's name, its length or precision, and its scale."""
    base = sql_type.partition("(")[0]
    if sql_type.endswith("(max)"):
        return base, _MAX, None
    numbers = [int(number) for number in re.findall(r"\d+", sql_type.removeprefix(base))]
    if base in _WITH_FRACTION:
        return base, None, numbers[0]
    length, scale = (*numbers, None, None)[:2]
    return base, *_SIZES.get(sql_type, (length, scale))
