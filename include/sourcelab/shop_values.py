"""Plausible values for customers and orders of the demo, because people read these tables.

The other tables keep the awkward values of `sourcelab.values`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from sourcelab import values
from sourcelab.tables import Column

_FIRST_NAMES = (
    "Ada", "Bruno", "Chloé", "Diego", "Elif", "Farid", "Grace", "Hanna", "Igor", "Jun", "Kofi", "Lena",
    "Mateo", "Nadia", "Oscar", "Priya", "Rosa", "Sven", "Tomás", "Yuki", "Zoë",
)  # fmt: skip
_LAST_NAMES = (
    "Almeida", "Brandt", "Costa", "Demir", "Eriksen", "Fischer", "García", "Haddad", "Ito", "Jansen",
    "Kowalski", "Larsson", "Moreau", "Nguyen", "O'Brien", "Petrov", "Rossi", "Schäfer", "Tanaka", "Weber",
)  # fmt: skip
_NOTES = (
    "Prefers delivery in the morning.",
    "Asked for an invoice by e-mail.",
    "Returned a parcel last month; the refund is done.",
    "Wants to hear of new arrivals.",
    "Two addresses: home on weekends, office on weekdays.",
)
_NOW = datetime(2026, 1, 1)


def value(rng: Random, column: Column, old: Any) -> Any:
    """Returns a value other than `old`, like `values.other_value`."""
    make = _MAKERS.get(column.name)
    if make is None:
        return values.other_value(rng, column, old)
    if column.nullable and old is not None and not rng.randrange(8):
        return None
    while (new := make(rng)) == old:
        pass
    return new


def _email(rng: Random) -> str:
    name = f"{rng.choice(_FIRST_NAMES)}.{rng.choice(_LAST_NAMES)}".lower().replace("'", "")
    return f"{name}{rng.randrange(100)}@example.com"


def _moment(days: int, step: timedelta) -> Callable[[Random], datetime]:
    steps = timedelta(days=days) // step

    def moment(rng: Random) -> datetime:
        return _NOW - rng.randrange(steps) * step

    return moment


_MAKERS: dict[str, Callable[[Random], Any]] = {
    "name": lambda rng: f"{rng.choice(_FIRST_NAMES)} {rng.choice(_LAST_NAMES)}",
    "email": _email,
    "credit": lambda rng: Decimal(rng.randrange(0, 500_000)) / 100 + Decimal("0.0000"),
    "created_at": _moment(2_000, timedelta(milliseconds=1)),
    "seen_at": _moment(300, timedelta(microseconds=1)),
    "born": lambda rng: date(1940, 1, 1) + timedelta(days=rng.randrange(24_000)),
    "notes": lambda rng: " ".join(rng.sample(_NOTES, rng.randint(1, 3))),
    "region": lambda rng: rng.choice(("EU", "US", "BR", "JP", "IN")),
    "total": lambda rng: Decimal(rng.randrange(500, 90_000)) / 100 + Decimal("0.0000"),
    # Multiples of 10 ms: `datetime` has ticks of 3 1/3 ms.
    "ordered_at": _moment(300, timedelta(milliseconds=10)),
    "weight": lambda rng: rng.randrange(1, 400) / 8,
    "ratio": lambda rng: rng.randrange(1, 100) / 4,
    "priority": lambda rng: rng.randrange(1, 6),
    "stock": lambda rng: rng.randrange(500),
    "status": lambda rng: rng.choice(("new", "paid", "packed", "sent", "returned")).ljust(10),
}
