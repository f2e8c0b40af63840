"""Why a record cannot be read."""

from __future__ import annotations

from changeledger.dialects.messages.message_rows import Outcome
from changeledger.model import change

LONGEST_DETAIL = 500
LONE_SURROGATE = ("lone_surrogate", "an escape \\ud8.. to \\udf.. is half of a surrogate pair")


class Problem(Exception):
    """A record is quarantined: for what reason, and a detail of which 500 characters are kept."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason)
        self.outcome = Outcome(change.QUARANTINED, reason, detail[:LONGEST_DETAIL])


def named(name: str, value: object) -> str:
    """`name is value`, for a detail."""
    return f"{name} is {'missing' if value is None else value}"
