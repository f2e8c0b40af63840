"""Values that fit the lake's type but that SQL Server's type does not have.

Sources: Microsoft's pages "money and smallmoney" (64 and 32 bits of ten-thousandths), "datetime" (from 1753)
and "smalldatetime" (whole minutes from 1900 to 2079-06-06). Points in time are microseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.arrow import Bools, flags_of, numbers, valid
from changeledger.model.sql_type import SqlType

_MINUTE = 60_000_000


class _Range(NamedTuple):
    """A type's bounds. Each value is a multiple of `step`."""

    least: Any
    most: Any
    step: int | None = None


def _money(bits: int) -> _Range:
    return _Range(Decimal(-(2 ** (bits - 1))).scaleb(-4), Decimal(2 ** (bits - 1) - 1).scaleb(-4))


_RANGES: Mapping[str, _Range] = {
    "money": _money(64),
    "smallmoney": _money(32),
    # 1753-01-01 to 9999-12-31 23:59:59.997.
    "datetime": _Range(-6_847_804_800_000_000, 253_402_300_799_997_000),
    # 1900-01-01 to 2079-06-06 23:59.
    "smalldatetime": _Range(-2_208_988_800_000_000, 3_453_321_540_000_000, _MINUTE),
}


def reading(sql: SqlType, read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Wraps `read`: None for a value that the type does not have."""
    known = _RANGES.get(sql.base)
    if known is None:
        return read
    least, most, step = known

    def read_in_range(text: str) -> Any:
        value = read(text)
        is_in_range = value is not None and least <= value <= most and (step is None or value % step == 0)
        return value if is_in_range else None

    return read_in_range


def outside(sql: SqlType, values: pa.Array) -> Bools | None:
    """Returns which values, in the lake's type, SQL Server's type does not have; None if it has them all."""
    known = _RANGES.get(sql.base)
    if known is None:
        return None
    least, most = (pa.scalar(bound, values.type) for bound in known[:2])
    is_outside = flags_of(pc.or_(pc.less(values, least), pc.greater(values, most)))
    if known.step is not None:
        is_outside = is_outside | (valid(values) & (numbers(values) % known.step != 0))
    return is_outside if is_outside.any() else None
