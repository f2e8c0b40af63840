"""Whether the type that a message says of a column reads its text as the type that the feed states does."""

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
# Which kinds a stated kind reads besides its own: their text is a value of it, and of no other.
_READ: Mapping[str, frozenset[str]] = {
    _TEXT: frozenset({_PADDED, _WHOLE, _CLR}),
    _BYTES: frozenset({_CLR}),
    _CLR: frozenset({_BYTES}),
    _DECIMAL: frozenset({_WHOLE}),
}


def contradicts(stated: SqlType, said: SqlType) -> bool:
    """Would a value of the type that a message says be another one in the stated type?

    Text in one type's form can be a value of another one too: digits of hex as base64, a GUID of a text
    column in capitals, a `float` as a `real`. Types that hold the same values by the same text are one,
    whatever their sizes: a value that is too long or too fine for the stated size does not fit.
    """
    stated_kind, other = _kind(stated), _kind(said)
    return stated_kind != other and other not in _READ.get(stated_kind, ())


def _kind(sql: SqlType) -> str:
    return _KINDS.get(sql.base, sql.base)
