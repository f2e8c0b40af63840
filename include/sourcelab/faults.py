"""Faults of one feed: a log as a capture tool with a fault would write it, and which changes are wrong."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import NamedTuple

from sourcelab.log import Change, Log, Transaction
from sourcelab.messages import Message
from sourcelab.tables import Key
from sourcelab.values import other_value


class Fault(NamedTuple):
    """`kind`: lost, changed, doubled or swapped. `changes`: those of the true log that it touches.

    `column`: the one whose value was changed.
    """

    kind: str
    changes: Sequence[tuple[Transaction, Change]]
    column: str | None = None


def lose(log: Log, number: int) -> tuple[Log, Fault]:
    """A transaction that the feed never has."""
    gone = log.transactions[number]
    left = tuple(t for t in log.transactions if t is not gone)
    return replace(log, transactions=left), Fault("lost", [(gone, c) for c in gone.changes])


def change_value(log: Log, number: int, rng: Random) -> tuple[Log, Fault]:
    """Another value in one cell of an after image. The log's next image of the row is right again."""
    transaction = log.transactions[number]
    change = rng.choice([c for c in transaction.changes if c.after is not None])
    assert change.after is not None, "chosen so"
    # A large value is not written by every tool.
    columns = [c for c in change.table.free_columns if c.base in {"int", "decimal", "date", "bigint"}]
    column = rng.choice(columns)
    wrong = {**change.after, column.name: other_value(rng, column, change.after[column.name])}
    faulty = replace(change, after=wrong)
    fault = Fault("changed", [(transaction, change)], column.name)
    return _with(log, number, [faulty if c is change else c for c in transaction.changes]), fault


def double(log: Log, number: int, rng: Random) -> tuple[Log, Fault]:
    """A change that is written twice, at two places of its transaction."""
    transaction = log.transactions[number]
    change = rng.choice([c for c in transaction.changes if c.operation in {"insert", "update"}])
    last = max(c.change_lsn for c in transaction.changes)
    # Behind the others, in the slots that the log leaves free.
    again = replace(change, change_lsn=(int.from_bytes(last) + 1).to_bytes(len(last)))
    return _with(log, number, [*transaction.changes, again]), Fault("doubled", [(transaction, change)])


def swap(log: Log, number: int) -> tuple[Log, Fault]:
    """Two transactions, each with what the other did."""
    first, other = log.transactions[number : number + 2]
    faulty = _with(_with(log, number, other.changes), number + 1, first.changes)
    return faulty, Fault("swapped", [(t, c) for t in (first, other) for c in t.changes])


def lose_segments(
    messages: Sequence[Message], count: int, rng: Random
) -> tuple[list[Message], list[Message]]:
    """Change event streaming of which one segment of each of so many split events never arrives.

    Also what is there of these events.
    """
    of_event: dict[tuple[str, str], list[Message]] = {}
    for message in messages:
        event = json.loads(message.value or b"{}")
        # Both halves of a key update have one `logicalid`.
        of_event.setdefault((event["logicalid"], event["operation"]), []).append(message)
    torn = rng.sample([its for its in of_event.values() if len(its) > 1], count)
    lost = [rng.choice(its) for its in torn]
    return [m for m in messages if m not in lost], [m for its in torn for m in its if m not in lost]


def keys_of(transaction: Transaction) -> set[tuple[str, Key]]:
    return {
        (c.table.full_name, c.table.key_of(row))
        for c in transaction.changes
        for row in (c.before, c.after)
        if row is not None
    }


def _with(log: Log, number: int, changes: Sequence[Change]) -> Log:
    transactions = list(log.transactions)
    transactions[number] = replace(transactions[number], changes=tuple(changes))
    return replace(log, transactions=tuple(transactions))
