"""Durations, as people write them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator

# A thousand years: longer durations lead out of the calendar.
_LONGEST: Final = timedelta(days=365_000)


def _in_iso_8601(value: Any) -> Any:
    """Accepts ISO 8601 only.

    `30` could mean half a minute or 30 days, and YAML reads `12:00` as a number.
    """
    if isinstance(value, timedelta) or (isinstance(value, str) and value.startswith("P")):
        return value
    raise ValueError("write it in ISO 8601, such as PT15M for 15 minutes or P30D for 30 days")


def _in_the_calendar(value: timedelta) -> timedelta:
    if value > _LONGEST:
        raise ValueError("is longer than a thousand years")
    return value


Duration = Annotated[timedelta, BeforeValidator(_in_iso_8601), AfterValidator(_in_the_calendar)]
