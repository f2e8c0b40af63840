"""SQL Server types of a contract's columns, and their types in the lake."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from changeledger.model.errors import ContractError

# The name's words and the blanks between them have one way to match: the text may be a message's.
_TYPE = re.compile(
    r"([a-z_][a-z0-9_]*(?: +[a-z0-9_]+)*)\s*(?:\(\s*(max|[0-9]{1,5})\s*(?:,\s*([0-9]{1,5})\s*)?\))?\Z"
)
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
# Their before image is always NULL on update and delete (specs: large object data types).
_LOB = {"text", "ntext", "image"}
_MAX_TYPES = {"varchar", "nvarchar", "varbinary"}
DECIMALS = frozenset({"decimal", "numeric"})
# Types whose values are any text.
TEXTS = {"char", "varchar", "nchar", "nvarchar", "text", "ntext", "sysname", "xml"}
_CLOCKS = {"time", "datetime2", "datetimeoffset"}
_WITH_LENGTH = {"char", "varchar", "nchar", "nvarchar", "binary", "varbinary"}
# The least and greatest size of the types whose lake type or values depend on it.
_SIZES = {
    "decimal": (1, 38),
    "numeric": (1, 38),
    "float": (1, 53),
    "time": (0, 7),
    "datetime2": (0, 7),
    "datetimeoffset": (0, 7),
}
# "float(n): if n is 1 to 24, it is treated as 24", which is a real (Microsoft's page "float and real").
_MOST_BITS_OF_A_REAL = 24
# Spark's whole number types, narrowest first.
_WHOLE = ("smallint", "int", "bigint")


class SqlType(NamedTuple):
    """A SQL Server type taken apart: `decimal(18,4)` is `("decimal", 18, 4)`; `max` is -1."""

    base: str
    length: int | None = None
    scale: int | None = None

    @classmethod
    def parse(cls, text: str) -> SqlType:
        """Parses a type. Raises ContractError if it is not a SQL Server type that the lake can hold."""
        parsed = cls._parsed(text)
        if parsed is None:
            raise ContractError(
                f"{text!r} is not a SQL Server type",
                "write the column's type as SQL Server does, for example decimal(18,4) or nvarchar(50); "
                "json and user-defined types as nvarchar(max)",
            )
        return parsed

    @classmethod
    @lru_cache(maxsize=1_000)
    def _parsed(cls, text: str) -> SqlType | None:
        """Parses a type, or returns None. Cached: a feed has few types and asks for them often."""
        match = _TYPE.match(text.lower().strip())
        if match is None:
            return None
        length = None if match[2] is None else -1 if match[2] == "max" else int(match[2])
        parsed = cls(match[1], length, None if match[3] is None else int(match[3]))
        if not (parsed._is_known and parsed._is_in_range):
            return None
        is_real = parsed.base == "float" and length is not None and length <= _MOST_BITS_OF_A_REAL
        return cls("real") if is_real else parsed

    @property
    def _is_known(self) -> bool:
        return self.base in _SIMPLE or self.base in DECIMALS or self.base == "datetime2"

    @property
    def _is_in_range(self) -> bool:
        least, most = _SIZES.get(self.base, (-1, None))
        if self.length is not None and (self.length < least or (most is not None and self.length > most)):
            return False
        return self.base not in DECIMALS or (self.scale or 0) <= (18 if self.length is None else self.length)

    @property
    def spark(self) -> str:
        if self.base in DECIMALS:
            return f"decimal({18 if self.length is None else self.length},{self.scale or 0})"
        if self.base == "datetime2":
            return "timestamp_ntz" if self.fraction_digits <= 6 else "string"
        return _SIMPLE[self.base]

    @property
    def fraction_digits(self) -> int:
        """The digits of fractional seconds that a time type keeps; SQL Server's default is 7."""
        if self.base == "datetime":
            return 3
        if self.base == "smalldatetime":
            return 0
        return 7 if self.length is None else self.length

    @property
    def text_form(self) -> tuple[str, int] | None:
        """The form of types whose values are canonical text in the lake (docs/types.md), else None."""
        if self.base in {"char", "nchar"}:
            return "padded", 1 if self.length is None else self.length
        if self.base in {"time", "datetimeoffset"} or (self.base == "datetime2" and self.spark == "string"):
            return self.base, self.fraction_digits
        return ("uniqueidentifier", 0) if self.base == "uniqueidentifier" else None

    @property
    def is_lob(self) -> bool:
        return self.base in _LOB

    @property
    def is_large(self) -> bool:
        """Whether values can exceed 8,000 bytes. Qlik treats these as large objects; CES may cut them."""
        return self.is_max or self.is_lob or self.base in {"xml", "geometry", "geography"}

    @property
    def is_max(self) -> bool:
        """Whether the type is a max type. One without a stated length counts as such."""
        return self.base in _MAX_TYPES and self.length in {None, -1}


def holds(wide: str, narrow: str) -> bool:
    """Returns whether the lake's type `wide` holds every value of `narrow`, by Iceberg's promotion rules."""
    if wide in _WHOLE and narrow in _WHOLE:
        return _WHOLE.index(wide) >= _WHOLE.index(narrow)
    if (wide, narrow) == ("double", "float"):
        return True
    if wide.startswith("decimal") and narrow.startswith("decimal"):
        wide_type, narrow_type = SqlType.parse(wide), SqlType.parse(narrow)
        return wide_type.scale == narrow_type.scale and (wide_type.length or 0) >= (narrow_type.length or 0)
    return False


def written(base: str, length: int | None, precision: int | None, scale: int | None) -> str:
    """Returns a type as T-SQL writes it, with the sizes that apply to it.

    `length`: negative for max. `scale`: for a time, the digits of its fractional seconds.
    """
    if base in DECIMALS:
        return f"{base}({precision},{scale or 0})"
    if base in _WITH_LENGTH and length is not None:
        return f"{base}({'max' if length < 0 else length})"
    return f"{base}({scale})" if base in _CLOCKS and scale is not None else base
