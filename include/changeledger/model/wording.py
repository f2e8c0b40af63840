"""Formats numbers and times for sentences."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta


def counted(number: int, noun: str) -> str:
    """Returns `1 row`, `2,000 rows`. `noun` is singular and has a plural in -s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(names: Sequence[str], most: int) -> str:
    """Returns `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def shortened(text: str, most: int = 300) -> str:
    """Cuts a text of unknown length, which people or sources wrote, for use in a sentence."""
    return text if len(text) <= most else f"{text[:most]} ..."


def exact(moment: datetime) -> str:
    """Formats a time to the second, in UTC, with the zone."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def duration(time: timedelta) -> str:
    """Formats a duration in its two largest units: `3 d 4 h`."""
    seconds = int(time.total_seconds())
    parts = [
        (seconds // 86_400, "d"),
        (seconds // 3_600 % 24, "h"),
        (seconds // 60 % 60, "min"),
        (seconds % 60, "s"),
    ]
    first = next((at for at, (count, _) in enumerate(parts) if count), 3)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2])
