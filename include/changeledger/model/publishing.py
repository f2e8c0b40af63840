"""How a source column is published: unchanged, left out, hashed, cast, or under another name."""

from __future__ import annotations

from typing import Any, Final

from pydantic import model_validator

from changeledger.model.base_model import Strict
from changeledger.model.column_names import is_name
from changeledger.model.errors import ContractError
from changeledger.model.misspelt import meant
from changeledger.model.sql_type import SqlType
from changeledger.model.table_names import RESERVED

_WORDS: Final = ("drop", "hash")
# SQL Server types that the lake stores as the type named in `cast`; `decimal(p,s)` is used as written.
_TARGETS: Final = {"string": "nvarchar(4000)", "bigint": "bigint", "timestamp": "datetime2(6)"}
# SHA-256 as 64 hex digits.
_HASHED: Final = "varchar(64)"
# A real becomes another number as a double, so the text depends on more than the value.
_WITHOUT_TEXT: Final = ("float", "double")
# Digits before the point that hold every value.
_DIGITS: Final = {"smallint": 5, "int": 10, "bigint": 19}


class PublishRule(Strict):
    """How one column is published. `drop` or `hash` without other members may be written as a single word."""

    drop: bool = False
    """`true`: the column is not published."""
    hash: bool = False
    """`true`: values are published as HMAC-SHA256 with `CHANGELEDGER_HASH_KEY`, 64 hex digits."""
    cast: str = ""
    """The type in the lake: `string`, `bigint`, `decimal(p,s)` or `timestamp`. It must hold every value of
    the column's own type."""
    rename: str = ""
    """The published name."""
    expected: bool = False
    """`true`: the source may not have the column yet."""

    @model_validator(mode="before")
    @classmethod
    def _word(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if value not in _WORDS:
            near = meant(value, _WORDS)
            raise ValueError(
                f"{value!r} is not one of {', '.join(_WORDS)}" + (f", did you mean `{near}`?" if near else "")
            )
        return {value: True}

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> PublishRule:
        named = [name for name in ("drop", "hash", "cast", "rename") if getattr(self, name)]
        if not named:
            raise ValueError("says nothing: give `drop`, `hash`, `cast` or `rename`, or leave the column out")
        if self.drop and len(named) > 1:
            raise ValueError(
                f"`drop` contradicts `{named[1]}`: a column that is left out cannot be hashed, cast or "
                "renamed"
            )
        if self.hash and self.cast:
            raise ValueError("`hash` contradicts `cast`: a hash is text")
        if self.cast and self.cast not in _TARGETS:
            _require_decimal(self.cast)
        if self.rename and (not is_name(self.rename) or self.rename.lower() in RESERVED):
            raise ValueError(f"`rename`: {self.rename!r} cannot be the name of a published column")
        return self

    @property
    def is_same_values(self) -> bool:
        """Whether the values are published unchanged."""
        return not (self.drop or self.hash or self.cast)

    @property
    def words(self) -> str:
        """The rule in words."""
        said = [word for word in _WORDS if getattr(self, word)]
        said += [f"cast: {self.cast}"] if self.cast else []
        return ", ".join([*said, *([f"rename: {self.rename}"] if self.rename else [])])

    def type_of(self, source: str) -> str:
        """Returns the SQL Server type of the published values of a column of the type `source`.

        Raises ContractError if a value might not fit.
        """
        known = SqlType.parse(source)
        if self.hash:
            if known.spark in _WITHOUT_TEXT:
                raise ContractError(
                    f"{source} cannot be hashed: its text depends on the tool that writes it", _OTHERWISE
                )
            return _HASHED
        if not self.cast:
            return source
        target = _TARGETS.get(self.cast, self.cast)
        if not _holds(SqlType.parse(target).spark, known.spark):
            raise ContractError(
                f"{source} cannot be cast to {self.cast}: that is the same type, or it cannot hold all "
                "values",
                _OTHERWISE,
            )
        return target


_OTHERWISE: Final = "correct `publish:` in the feed's YAML (docs/publishing.md lists what can be cast)"


def _require_decimal(text: str) -> None:
    try:
        is_decimal = text.lower().startswith("decimal(") and SqlType.parse(text).base == "decimal"
    except ContractError:
        is_decimal = False
    if not is_decimal:
        near = meant(text, _TARGETS)
        guess = f", did you mean `{near}`?" if near else ""
        raise ValueError(f"`cast`: {text!r} is not one of {', '.join(_TARGETS)}, decimal(p,s){guess}")


def _holds(wide: str, narrow: str) -> bool:
    """Returns whether the lake's type `wide` holds every value of `narrow`, without making two values equal.

    A number's own type is allowed: the source may have widened its column up to the cast.
    """
    if wide == "string":
        return narrow not in {"string", "binary", *_WITHOUT_TEXT}
    if wide == "bigint":
        return narrow in {"smallint", "int", "bigint"}
    if wide == "timestamp_ntz":
        return narrow == "date"
    kind, decimal = SqlType.parse(wide), SqlType.parse(narrow) if narrow.startswith("decimal") else None
    scale = (decimal.scale or 0) if decimal else 0
    digits = (decimal.length or 0) - scale if decimal else _DIGITS.get(narrow)
    return (
        digits is not None and (kind.scale or 0) >= scale and (kind.length or 0) - (kind.scale or 0) >= digits
    )
