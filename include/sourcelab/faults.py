"""Plants faults in one feed: the log as a faulty capture tool writes it, and the changes that are wrong."""

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
    """A planted fault.

    - `kind`: lost, changed, doubled or swapped.
    - `changes`: the changes of the true log that it affects.
    - `column`: the column whose value was changed.
    """

    kind: str
    changes: Sequence[tuple[Transaction, Change]]
    column: str | None = None


def lose(log: Log, number: int) -> tuple[Log, Fault]:
    """Removes a transaction from the feed's log."""
    gone = log.transactions[number]
    left = tuple(t for t in log.transactions if t is not gone)
    return replace(log, transactions=left), Fault("lost", [(gone, c) for c in gone.changes])


def change_value(log: Log, number: int, rng: Random) -> tuple[Log, Fault]:
    """Changes one cell of an after image. The log's next image of the row is right again."""
    transaction = log.transactions[number]
    change = rng.choice([c for c in transaction.changes if c.after is not None])
    assert change.after is not None, "chosen so"
    # Not every tool writes large values.
    columns = [c for c in change.table.free_columns if c.base in {"int", "decimal", "date", "bigint"}]
    column = rng.choice(columns)
    wrong = {**change.after, column.name: other_value(rng, column, change.after[column.name])}
    faulty = replace(change, after=wrong)
    fault = Fault("changed", [(transaction, change)], column.name)
    return _with(log, number, [faulty if c is change else c for c in transaction.changes]), fault


def double(log: Log, number: int, rng: Random) -> tuple[Log, Fault]:
    """Writes a change twice, at two places of its transaction."""
    transaction = log.transactions[number]
    change = rng.choice([c for c in transaction.changes if c.operation in {"insert", "update"}])
    last = max(c.change_lsn for c in transaction.changes)
    # After the others, in a slot that the log leaves free.
    again = replace(change, change_lsn=(int.from_bytes(last) + 1).to_bytes(len(last)))
    return _with(log, number, [*transaction.changes, again]), Fault("doubled", [(transaction, change)])


def swap(log: Log, number: int) -> tuple[Log, Fault]:
    """Swaps the changes of two consecutive transactions."""
    first, other = log.transactions[number : number + 2]
    faulty = _with(_with(log, number, other.changes), number + 1, first.changes)
    return faulty, Fault("swapped", [(t, c) for t in (first, other) for c in t.changes])


def lose_segments(
    messages: Sequence[Message], count: int, rng: Random
) -> tuple[list[Message], list[Message]]:
    """Removes one segment of each of `count` split events of change event streaming.

    Returns the remaining messages, and those of them that belong to the incomplete events.
    """
    of_event: dict[tuple[str, str], list[Message]] = {}
    for message in messages:
        event = json.loads(message.value or b"{}")
        # Both halves of a key update share one `logicalid`.
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
