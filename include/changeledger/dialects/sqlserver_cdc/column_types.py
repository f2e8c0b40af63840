"""The type of a captured column, from `cdc.captured_columns` and the change table's own columns.

The change table's own column decides: ALTER COLUMN changes its type, and an alias type is its base type
there. By Microsoft's page on `cdc.<capture_instance>_CT` it has another type than the source table in two
cases: a `timestamp` is `binary(8)` there, and an identity is `int` or `bigint`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from changeledger.model.sql_type import DECIMALS, written

# `system_type_id` of sys.columns: the same in every database and version. User-defined types have the number
# of their base type. CLR types (`hierarchyid`, `geometry`, `geography`) share 240, which is no base type.
_BASES: Final[Mapping[int, str]] = {
    34: "image", 35: "text", 36: "uniqueidentifier", 40: "date", 41: "time", 42: "datetime2",
    43: "datetimeoffset", 48: "tinyint", 52: "smallint", 56: "int", 58: "smalldatetime", 59: "real",
    60: "money", 61: "datetime", 62: "float", 98: "sql_variant", 99: "ntext", 104: "bit", 106: "decimal",
    108: "numeric", 122: "smallmoney", 127: "bigint", 165: "varbinary", 167: "varchar", 173: "binary",
    175: "char", 189: "timestamp", 231: "nvarchar", 239: "nchar", 241: "xml",
}  # fmt: skip
_ROWVERSIONS: Final = frozenset({"timestamp", "rowversion"})
# By the change table's type: other types that an identity may have in the source table.
_IDENTITIES: Final[Mapping[str, frozenset[str]]] = {
    "int": frozenset({"tinyint", "smallint", *DECIMALS}),
    "bigint": DECIMALS,
}


def type_text(row: Mapping[str, Any]) -> str:
    """Returns the type with its sizes: `nvarchar` of 100 bytes is `nvarchar(50)`.

    `row` is a row of `CdcCatalog.captured_columns`.
    """
    said = str(row["column_type"]).lower()
    stored = _BASES.get(row.get("system_type_id") or 0)
    may_be_identity = row.get("is_identity") not in (False, 0)
    base, length = _base(said, stored, may_be_identity=may_be_identity), row["max_length"]
    if length is not None and length > 0 and base.startswith("n"):
        length //= 2
    return written(base, length, row["precision"], row["scale"])


def _base(said: str, stored: str | None, *, may_be_identity: bool) -> str:
    """Chooses between the types of the source table and the change table.

    `said` is that of the source table when it was captured, `stored` that of the change table, if known. If
    the login may not see the source table, any column may be an identity.
    """
    if stored is None or (stored == "binary" and said in _ROWVERSIONS):
        return said
    return said if may_be_identity and said in _IDENTITIES.get(stored, ()) else stored
