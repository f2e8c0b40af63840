"""Numbers and times in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta


def counted(number: int, noun: str) -> str:
    """`1 row`, `2,000 rows`. `noun`: in the singular, with a plural in -s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(names: Sequence[str], most: int) -> str:
    """`a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def shortened(text: str, most: int = 300) -> str:
    """In a sentence: people and sources write whatever they like."""
    return text if len(text) <= most else f"{text[:most]} ..."


def exact(moment: datetime) -> str:
    """To the second, in UTC, with the zone."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def duration(time: timedelta) -> str:
    """In its two largest units: `3 d 4 h`."""
    seconds = int(time.total_seconds())
    parts = [
        (seconds // 86_400, "d"),
        (seconds // 3_600 % 24, "h"),
        (seconds // 60 % 60, "min"),
        (seconds % 60, "s"),
    ]
    first = next((at for at, (count, _) in enumerate(parts) if count), 3)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2])
