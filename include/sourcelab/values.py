"""Random values of SQL Server's types, including awkward ones, as Python values.

`time`, `datetimeoffset` and `uniqueidentifier` (upper case) are text. `datetime` and `datetime2` are naive
datetimes. `char` is padded to its width.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from sourcelab.tables import Column

_INTEGERS = {
    "tinyint": (0, 2**8 - 1),
    "smallint": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
}
_ASCII = (
    "",
    "plain",
    "O'Brien",
    'say "hi"',
    "back\\slash",
    "two\nlines",
    "a,b;c\td",
    "NULL",
    " padded ",
    "{}",
)
_UNICODE = (*_ASCII, "Grüße", "日本語テキスト", "😀🚀", "İstanbul", "e\u0301", "שלום", "\r\n")
_OFFSETS = ("+00:00", "+11:00", "-08:00", "+05:30", "-00:30")
_FIRST, _LAST = date(1600, 1, 1), date(9999, 12, 31)
# One value in this many is an extreme of its type.
_RARE = 25


def value(rng: Random, column: Column) -> Any:
    """Returns a value that is not NULL."""
    return _MAKERS[column.base](rng, column)


def other_value(rng: Random, column: Column, old: Any) -> Any:
    """Returns a value other than `old`, sometimes NULL if the column allows it."""
    if column.nullable and old is not None and not rng.randrange(5):
        return None
    while (new := value(rng, column)) == old:
        pass
    return new


def real_text(value: float) -> str:
    """Returns the shortest text that is the same number in single precision."""
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if struct.unpack("f", struct.pack("f", float(text)))[0] == value:
            return text
    return repr(value)


def _rare(rng: Random) -> bool:
    return not rng.randrange(_RARE)


def _integer(rng: Random, column: Column) -> int:
    low, high = _INTEGERS[column.base]
    if _rare(rng):
        return rng.choice((low, high, 0))
    return (
        rng.randint(max(low, -100_000), min(high, 100_000))
        if column.base == "int"
        else rng.randint(low, high)
    )


def _decimal(rng: Random, column: Column) -> Decimal:
    assert column.decimal is not None
    precision, scale = column.decimal
    largest = 2**63 - 1 if column.base == "money" else 10**precision - 1
    if _rare(rng):
        units = rng.choice((largest, -largest, 0, 1, -1))
    else:
        units = rng.randint(-largest, largest) // 10 ** rng.randrange(precision)
    # From text, because arithmetic would round to the context's 28 digits.
    return Decimal(f"{units}E-{scale}")


def _text(samples: tuple[str, ...]) -> Callable[[Random, Column], str]:
    def text(rng: Random, column: Column) -> str:
        if column.is_max:
            return f"{rng.choice(samples)} {rng.getrandbits(40):x} " * rng.choice((1, 3, 10, 10, 400))
        sample = rng.choice(samples)
        return sample if not rng.randrange(6) else f"{sample} {rng.randrange(10**6)}"

    return text


def _char(rng: Random, column: Column) -> str:
    (width,) = column.arguments
    return rng.choice(("EU", "US", "A", "Z9", "X ", "BR")).ljust(width)


def _real(rng: Random, _column: Column) -> float:
    wanted = rng.choice((3.4e38, -3.4e38, 1e-30)) if _rare(rng) else rng.uniform(-1000, 1000)
    (single,) = struct.unpack("f", struct.pack("f", wanted))
    return float(single)


def _float(rng: Random, _column: Column) -> float:
    return rng.choice((1.7976931348623157e308, -1e-300, 0.1)) if _rare(rng) else rng.uniform(-1e9, 1e9)


def _date(rng: Random, _column: Column) -> date:
    if _rare(rng):
        return rng.choice((_FIRST, _LAST, date(1970, 1, 1), date(1969, 12, 31)))
    return date(1930, 1, 1) + timedelta(days=rng.randrange(40_000))


def _instant(rng: Random, column: Column) -> datetime:
    # `datetime` begins in 1753.
    first = date(1753, 1, 1) if column.base == "datetime" else _FIRST
    day = max(_date(rng, column), first)
    digits = column.arguments[0] if column.arguments else 3
    step = 10 ** (6 - digits)
    microseconds = 86_400_000_000 - 1 if _rare(rng) else rng.randrange(86_400_000_000)
    start = datetime(day.year, day.month, day.day)
    return start + timedelta(microseconds=microseconds // step * step)


def _clock(rng: Random) -> str:
    milliseconds = rng.choice((0, 86_399_999)) if _rare(rng) else rng.randrange(86_400_000)
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:03}"


def _offset(rng: Random, column: Column) -> str:
    day, clock = _date(rng, column), _clock(rng)
    # Seven fraction digits, the last of which is 0.
    return f"{day}T{clock}{clock[-3:]}0{rng.choice(_OFFSETS)}"


def _xml(rng: Random, _column: Column) -> str:
    return (
        f'<part n="{rng.randrange(10**6)}"><name>{rng.choice(("Grüße", "a &amp; b", "日本"))}</name></part>'
    )


_MAKERS: dict[str, Callable[[Random, Column], Any]] = {
    **dict.fromkeys(_INTEGERS, _integer),
    "bit": lambda rng, _column: bool(rng.getrandbits(1)),
    "decimal": _decimal,
    "money": _decimal,
    "real": _real,
    "float": _float,
    "date": _date,
    "datetime": _instant,
    "datetime2": _instant,
    "time": lambda rng, _column: _clock(rng),
    "datetimeoffset": _offset,
    "char": _char,
    "varchar": _text(_ASCII),
    "nvarchar": _text(_UNICODE),
    "xml": _xml,
    "uniqueidentifier": lambda rng, _column: str(uuid.UUID(int=rng.getrandbits(128))).upper(),
    "varbinary": lambda rng, column: rng.randbytes(rng.randint(0, column.arguments[0])),
}
