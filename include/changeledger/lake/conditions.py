"""Conditions on rows: pyiceberg's predicates, by which Iceberg also skips files.

They are cast because mypy takes them for models and only sees their fields.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import cast

from pyiceberg.expressions import (
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

_OfName = Callable[[str], BooleanExpression]
_OfValue = Callable[[str, object], BooleanExpression]
_OfValues = Callable[[str, Collection[object]], BooleanExpression]

is_null = cast(_OfName, IsNull)
is_among = cast(_OfValues, In)
is_equal = cast(_OfValue, EqualTo)
is_before, is_up_to = cast(_OfValue, LessThan), cast(_OfValue, LessThanOrEqual)
is_behind, is_from = cast(_OfValue, GreaterThan), cast(_OfValue, GreaterThanOrEqual)
