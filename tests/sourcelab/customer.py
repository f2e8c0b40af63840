"""A customer before a change, and the commit time of that change, for the tests of writers."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

NOON = datetime(2024, 3, 1, 12, 0, 0, 125_000, tzinfo=UTC)
ROW = {
    "id": 7,
    "name": "Ann",
    "email": None,
    "active": True,
    "credit": Decimal("1.5000"),
    "created_at": datetime(1970, 1, 1, 0, 0, 1),
    "seen_at": datetime(1969, 12, 31, 23, 59, 59, 999_999),
    "born": date(1970, 1, 2),
    "notes": "long",
}
