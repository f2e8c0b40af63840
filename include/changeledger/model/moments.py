"""Moments that people write."""

from __future__ import annotations

from datetime import UTC, datetime


def in_utc(text: str) -> datetime:
    """Without a zone it is UTC. Raises ValueError if it is no time, or its zone leads out of all years."""
    moment = datetime.fromisoformat(text)
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError as error:
        raise ValueError(f"the zone of {text!r} leads out of the years that there are") from error
