"""Conditions on rows, by which Iceberg passes over files, too: pyiceberg's predicates.

mypy takes these for models, whose fields alone it sees.
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
