"""Template filters that format numbers and times for people."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

from changeledger.audit.remedies import TOLERATING, remedy
from changeledger.model import wording

# Shown for unknown values.
NOTHING: Final = "\N{EN DASH}"


def number(value: float | None) -> str:
    """Formats as `1,234`, or a dash for an unknown value."""
    return NOTHING if value is None else f"{value:,}"


def signed(value: int | None) -> str:
    """Formats as `+12`, `-3`, `±0`, or a dash for an unknown value."""
    if value is None:
        return NOTHING
    return f"{value:+,}" if value else "\N{PLUS-MINUS SIGN}0"


def moment(value: datetime | None) -> str:
    """Formats to the minute, in UTC."""
    return NOTHING if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M}"


def exact(value: datetime | None) -> str:
    """Formats to the second, in UTC, with the zone."""
    return NOTHING if value is None else wording.exact(value)


def duration(value: timedelta | None) -> str:
    """Formats in the two largest units: `3 d 4 h`, `2 min 5 s`."""
    return NOTHING if value is None else wording.duration(max(value, timedelta(0)))


def ago(value: datetime | None) -> str:
    """Formats as `5 min ago`, in the largest unit."""
    if value is None:
        return "never"
    past = datetime.now(UTC) - value
    if past < timedelta(0):
        return f"in {' '.join(duration(-past).split()[:2])}"
    return f"{' '.join(duration(past).split()[:2])} ago"


def part(value: str) -> str:
    """Quotes text as one part of an address."""
    return quote(value, safe="")


ALL: Final[dict[str, Callable[..., Any]]] = {
    "number": number,
    "signed": signed,
    "moment": moment,
    "exact": exact,
    "duration": duration,
    "ago": ago,
    "part": part,
    "remedy": remedy,
    "tolerating": TOLERATING.__getitem__,
}
