"""Reads messages one by one: first in their usual form, then any other one member by member."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from changeledger.dialects.messages.message_rows import Outcome
from changeledger.kernels.json_text import UNREADABLE

Event = TypeVar("Event")


def read(
    values: Sequence[bytes | None],
    usual: Callable[[int, bytes], Event | None],
    single: Callable[[int, bytes | None], Event | Outcome],
) -> tuple[list[Event], dict[int, Outcome]]:
    """Returns the events of messages in their order, and the outcomes of the other messages.

    Both functions take the number of a message and its value. `usual` reads most messages. For one that it
    leaves to `single`, it returns None or raises one of `UNREADABLE`.
    """
    events: list[Event] = []
    others: dict[int, Outcome] = {}
    for at, value in enumerate(values):
        result: Event | Outcome | None
        try:
            result = None if value is None else usual(at, value)
        except UNREADABLE:
            result = None
        if result is None:
            result = single(at, value)
        if isinstance(result, Outcome):
            others[at] = result
        else:
            events.append(result)
    return events, others
