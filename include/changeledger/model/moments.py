"""Times as people write them."""

from __future__ import annotations

from datetime import UTC, datetime


def in_utc(text: str) -> datetime:
    """Parses an ISO 8601 time; without a zone it is UTC.

    Raises ValueError if the text is not a time, or if the time in UTC is outside the years 1 to 9999.
    """
    moment = datetime.fromisoformat(text)
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError as error:
        raise ValueError(f"the zone of {text!r} leads outside the years 1 to 9999") from error
