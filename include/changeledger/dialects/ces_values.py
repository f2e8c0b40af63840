"""The text of a CES cell as a value of its type.

Every value is text; how bit, float and binary are written is not published, so all plausible forms are
read: `0/1/true/false`, any decimal text of a float, `0x` hex or base64.
"""

from __future__ import annotations

from changeledger import images
from changeledger.contract import Column as ContractColumn
from changeledger.contract import SqlType
from changeledger.dialects import text_values
from changeledger.images import Wire

_NUMBER = "[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?"

# The producer cuts a value above 1 MB to 1 MB before it writes the event. Which megabyte, and of which
# encoding, is not published: a size just below either of them is taken for a cut one.
_MEGABYTES = (1_000_000, 1_048_576)
# A cut may fall inside a character, and then leaves up to three bytes less.
_SHORT_BY = 3
# No text of fewer characters can be one megabyte in any encoding (four bytes a character).
_FEWEST_CHARACTERS = (_MEGABYTES[0] - _SHORT_BY) // 4

# Stands for a cut value; of private use, so that no text of a table is likely to be it.
CUT = "\ue000cut at 1 MB\ue000"


def wire(binaries: str) -> Wire:
    """`binaries`: how binary values are written: `hex`, `base64`, or `any` of both."""

    def value(form: str, column: ContractColumn) -> str:
        return _value(form, column.sql_type, binaries)

    return Wire(lambda told, _: told, value)


def _value(form: str, sql: SqlType, binaries: str) -> str:
    if sql.spark == "binary":
        return _binary(form, binaries)
    if sql.spark.startswith("decimal"):
        return _decimal(form, sql)
    if text_values.is_read_here(sql):
        return text_values.value(form, sql)
    if sql.base in _READERS:
        return _READERS[sql.base](form, sql)
    return form if sql.spark == "string" else f"try_cast({form} AS {sql.spark})"


def _bit(form: str, _sql: SqlType) -> str:
    told = f"lower({form})"
    return f"CASE WHEN {told} IN ('1', 'true') THEN true WHEN {told} IN ('0', 'false') THEN false END"


def _floating(form: str, sql: SqlType) -> str:
    return text_values.fits(form, _NUMBER, f"try_cast({form} AS {sql.spark})")


def _decimal(form: str, sql: SqlType) -> str:
    return text_values.fits(form, _NUMBER, images.decimal(form, sql))


def _binary(form: str, binaries: str) -> str:
    hexadecimal = (
        f"CASE WHEN lower(substring({form}, 1, 2)) = '0x' AND length({form}) % 2 = 0 "
        f"THEN try_to_binary(substring({form}, 3), 'hex') END"
    )
    # Without its padding a text has lost its end.
    base64 = f"CASE WHEN length({form}) % 4 = 0 THEN try_to_binary({form}, 'base64') END"
    return {"hex": hexadecimal, "base64": base64, "any": f"coalesce({hexadecimal}, {base64})"}[binaries]


_READERS = {
    "bit": _bit,
    "real": _floating,
    "float": _floating,
}


def is_cut(told: str, sql: SqlType, binaries: str) -> str:
    """SQL text: is the cell's text that of a value which the producer has cut?"""
    if sql.spark == "binary":
        sizes = [f"octet_length({_binary(told, binaries)})"]
    elif sql.base in {"varchar", "text"}:
        # One byte a character in most code pages, up to four in UTF-8.
        sizes = [f"octet_length({told})", f"length({told})"]
    else:
        sizes = [f"octet_length({told})", f"octet_length(encode({told}, 'UTF-16LE'))"]
    ranges = [f"{size} BETWEEN {m - _SHORT_BY} AND {m}" for size in sizes for m in _MEGABYTES]
    return f"(length({told}) >= {_FEWEST_CHARACTERS} AND ({' OR '.join(ranges)}))"
