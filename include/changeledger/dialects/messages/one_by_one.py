"""Reads messages one by one: first in their usual form, then any other one member by member."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from changeledger.dialects.messages.message_rows import Outcome
from changeledger.kernels.json_text import UNREADABLE


class NumberedEvent(Protocol):
    """The event of a message. `at`: the number of the message in its batch."""

    at: int


Event = TypeVar("Event", bound=NumberedEvent)
# Both take the number of a message and its value.
Usual = Callable[[int, bytes], Event | None]
Single = Callable[[int, bytes | None], Event | Outcome]


def read(
    values: Sequence[bytes | None], usual: Usual[Event], single: Single[Event]
) -> tuple[list[Event], dict[int, Outcome]]:
    """Returns the events of messages in their order, and the outcomes of the other messages.

    `usual` reads most messages. For one that it leaves to `single`, it returns None or raises one of
    `UNREADABLE`.
    """
    events: list[Event] = []
    unusual: list[int] = []
    for at, value in enumerate(values):
        try:
            event = None if value is None else usual(at, value)
        except UNREADABLE:
            event = None
        if event is None:
            unusual.append(at)
        else:
            events.append(event)
    others: dict[int, Outcome] = {}
    for at in unusual:
        result = single(at, values[at])
        if isinstance(result, Outcome):
            others[at] = result
        else:
            events.append(result)
    if unusual:
        events.sort(key=lambda event: event.at)
    return events, others
