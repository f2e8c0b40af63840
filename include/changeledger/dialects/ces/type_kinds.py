"""Tells whether a column's type in messages and its type in the feed read a text as the same value."""

from __future__ import annotations

from collections.abc import Mapping

from changeledger.model.sql_type import SqlType

_TEXT, _BYTES, _CLR, _WHOLE, _DECIMAL, _PADDED, _DATETIME2 = (
    "text", "bytes", "clr", "whole", "decimal", "padded", "datetime2",
)  # fmt: skip
_KINDS: Mapping[str, str] = {
    **dict.fromkeys(("varchar", "nvarchar", "text", "ntext", "sysname", "xml", "sql_variant"), _TEXT),
    **dict.fromkeys(("binary", "varbinary", "image", "timestamp", "rowversion"), _BYTES),
    **dict.fromkeys(("hierarchyid", "geometry", "geography"), _CLR),
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _WHOLE),
    **dict.fromkeys(("decimal", "numeric", "money", "smallmoney"), _DECIMAL),
    **dict.fromkeys(("char", "nchar"), _PADDED),
    **dict.fromkeys(("datetime2", "smalldatetime"), _DATETIME2),
}
# By stated kind: the other kinds whose texts it reads as the same values.
_READ: Mapping[str, frozenset[str]] = {
    _TEXT: frozenset({_PADDED, _WHOLE, _CLR}),
    _BYTES: frozenset({_CLR}),
    _CLR: frozenset({_BYTES}),
    _DECIMAL: frozenset({_WHOLE}),
}


def contradicts(stated: SqlType, said: SqlType) -> bool:
    """Returns whether a value of the type in a message could be another value in the stated type.

    Text in the form of one type can also be a value of another type: hex digits as base64, a GUID of a text
    column in capitals, a `float` as a `real`. Types that hold the same values by the same text count as one,
    whatever their sizes: a value that is too long or too fine for the stated size does not fit.
    """
    stated_kind, other = _kind(stated), _kind(said)
    return stated_kind != other and other not in _READ.get(stated_kind, ())


def _kind(sql: SqlType) -> str:
    return _KINDS.get(sql.base, sql.base)
