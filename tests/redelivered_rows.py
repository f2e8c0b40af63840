"""A ledger whose topic sends rows again, after changes of their keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from changeledger.model import change
from tests.key_moves import CONTRACT

__all__ = ["AT", "CONTRACT", "rows"]

AT = datetime(2026, 8, 7, 16, tzinfo=UTC)

# (key, operation, a, b). A b of `?` is unknown.
TABLE_QUERY: tuple[tuple[int, str, int | None, str | None], ...] = (
    (1, "insert", 1, "x"),
    (2, "insert", 1, "x"),
    (3, "insert", 1, "x"),
    (3, "delete", 1, "x"),
    (5, "insert", 1, "?"),
    (6, "insert", 1, None),
    (6, "update", 1, "y"),
    (7, "insert", 7, "never sent again"),
    (1, "snapshot", 1, "x"),
    (2, "snapshot", 2, None),
    (3, "snapshot", 3, "x"),
    (4, "snapshot", 4, "new"),
    (5, "snapshot", 1, "late"),
    (6, "snapshot", 1, "y"),
)


def rows(run: str = "run") -> list[dict[str, Any]]:
    """Returns the ledger's rows."""
    ledger = []
    for at, (key, operation, a, b) in enumerate(TABLE_QUERY):
        side = "before" if operation == "delete" else "after"
        unknown = b == "?"
        row: dict[str, Any] = {
            "change_id": f"c{at}", "operation": operation, "key": (key,),
            side: (key, a, None if unknown else b),
            f"{side}_unknown_columns": {"b": change.UNAVAILABLE} if unknown else None,
            "sort_key": at.to_bytes(4), "commit_lsn": at.to_bytes(10),
            "committed_at": AT + timedelta(seconds=at), "window_id": run,
            "source_position": ("topic", 0, at, None),
        }  # fmt: skip
        ledger.append(row)
    return ledger
