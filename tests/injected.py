"""Injects faults into a log, and says how a comparison with the true log must report them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

from sourcelab import faults
from sourcelab.faults import Fault
from sourcelab.log import Change, Log, Transaction
from sourcelab.tables import Table

# The verdict of a comparison on each fault.
VERDICT = {"lost": "missing", "changed": "differs", "doubled": "extra", "swapped": "order"}


def effects(changes_of: Iterable[tuple[Transaction, Change]], table: Table) -> list[tuple[bytes, int]]:
    """Returns place and change of each effect. An insert of a key after its delete counts as one update."""
    reported: dict[tuple[bytes, Any], list[tuple[str, int]]] = {}
    for transaction, change in changes_of:
        if change.table is not table:
            continue
        steps = []
        if change.operation in {"delete", "key_update"}:
            assert change.before is not None
            steps.append((change.before, "d"))
        if change.after is not None:
            steps.append((change.after, "u" if change.operation == "update" else "i"))
        for row, step in steps:
            at = reported.setdefault((transaction.commit_lsn, table.key_of(row)), [])
            if step == "i" and at and at[-1][0] == "d":
                at[-1] = "u", change.serial
            else:
                at.append((step, change.serial))
    return sorted((place, serial) for (place, _), steps in reported.items() for _, serial in steps)


def with_faults(
    log: Log, kinds: Sequence[str], rng: Random, last: int | None = None
) -> tuple[Log, list[Fault]]:
    """Returns the log with a fault of each kind, and the faults.

    No two faults touch the same key or transaction. None is in the first transaction, nor in those from
    number `last` on.
    """
    free = {n: faults.keys_of(t) for n, t in enumerate(log.transactions[:last]) if n}
    injected = []
    # A lost transaction changes the numbers of those after it, so it comes last.
    for kind in sorted(kinds, key=["changed", "doubled", "swapped", "lost"].index):
        numbers = [n for n in free if _fits(log, n, kind) and (kind != "swapped" or n + 1 in free)]
        number = rng.choice(numbers)
        touched = free.pop(number) | (free.pop(number + 1) if kind == "swapped" else set())
        free = {n: keys for n, keys in free.items() if not keys & touched}
        log, fault = _INJECT[kind](log, number, rng)
        injected.append(fault)
    return log, injected


_INJECT: dict[str, Callable[[Log, int, Random], tuple[Log, Fault]]] = {
    "lost": lambda log, number, _: faults.lose(log, number),
    "changed": faults.change_value,
    "doubled": faults.double,
    "swapped": lambda log, number, _: faults.swap(log, number),
}


def _fits(log: Log, number: int, kind: str) -> bool:
    """Returns whether the transaction can have such a fault, and the expected finding is certain."""
    reported = log.transactions[number].changes
    if kind == "changed":
        # Every row that it leaves needs a column whose value every tool writes.
        kept = [c.table.free_columns for c in reported if c.after is not None]
        valued = {"int", "decimal", "date", "bigint"}
        return bool(kept) and all(any(c.base in valued for c in columns) for columns in kept)
    if kind == "doubled":
        keys = Counter(
            (c.table.name, c.table.key_of(row)) for c in reported for row in (c.before or c.after,) if row
        )
        return max(keys.values()) == 1 and any(c.operation in {"insert", "update"} for c in reported)
    if kind == "swapped":
        following = log.transactions[number + 1 : number + 2]
        return all(not faults.keys_of(log.transactions[number]) & faults.keys_of(t) for t in following)
    return True
