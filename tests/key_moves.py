"""A table with SQL's semantics, and the ledger of a tool that writes one change per row of a statement.

A statement is atomic: all old keys leave, then all new keys arrive, and no two rows have the same key. The
tool writes a statement's rows in its own order. An update that moves a row carries the old key, as Qlik's do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import count
from random import Random
from typing import Any, NamedTuple

from changeledger.model import change
from changeledger.model.contract import Column, Contract

CONTRACT = Contract(
    table="dbo.t",
    columns=(
        Column(name="id", type="int", ordinal=1, nullable=False, key_position=1),
        Column(name="a", type="int", ordinal=2),
        Column(name="b", type="nvarchar(9)", ordinal=3),
    ),
)
CELLS = ("a", "b")
AT = datetime(2026, 8, 7, 16)

# A row's key before (None: inserted) and after (None: deleted). If both are equal, the row keeps its key.
Move = tuple[int | None, int | None]
Statement = Sequence[Move]
Transaction = Sequence[Statement]
# Key, a, b, from, to: a live version of a row.
Life = tuple[int, Any, Any, datetime, datetime | None]

# Rows are in the order in which the tool writes them. Rows 1 to 4 exist from the beginning.
SCENARIOS: dict[str, Sequence[Transaction]] = {
    "swap": [[[(1, 2), (2, 1)]]],
    "swap and back in one transaction": [[[(1, 2), (2, 1)], [(2, 1), (1, 2)]]],
    "swap and back in two": [[[(1, 2), (2, 1)]], [[(1, 2), (2, 1)]]],
    "swap of a key that was changed in the transaction": [[[(2, 2)], [(1, 2), (2, 1)], [(2, 2)]]],
    "shift, ascending": [[[(1, 2), (2, 3), (3, 4), (4, 5)]]],
    "shift, descending": [[[(4, 5), (3, 4), (2, 3), (1, 2)]]],
    "shift twice": [[[(1, 2), (2, 3), (3, 4), (4, 5)], [(2, 3), (3, 4), (4, 5), (5, 6)]]],
    "shift, and the last one moves on": [[[(1, 2), (2, 3), (3, 4), (4, 5)], [(5, 6)], [(2, 7)]]],
    "cycle of three": [[[(1, 2), (2, 3), (3, 1)]]],
    "cycle of three, the other way round": [[[(3, 1), (2, 3), (1, 2)]]],
    "cycle of three, from its middle": [[[(2, 3), (3, 1), (1, 2)]]],
    "chain in one transaction": [[[(1, 5)], [(5, 6)], [(6, 7)]]],
    "chain in many": [[[(1, 5)]], [[(5, 6)]], [[(6, 7)]]],
    "there and back again": [[[(1, 5)], [(5, 1)]]],
    "there and back again in two": [[[(1, 5)]], [[(5, 1)]]],
    "onto a key deleted before": [[[(1, None)]], [[(2, 1)]]],
    "onto a key deleted in the transaction": [[[(1, None)], [(2, 1)]]],
    "through a key deleted before": [[[(1, None)]], [[(2, 1)], [(1, 5)]]],
    "onto a key that was left": [[[(1, 5)], [(2, 1)], [(1, 2)]]],
    "a chain, then a swap on it": [[[(1, 5)], [(2, 5), (5, 2)]]],
    "a swapped row is deleted": [[[(1, 2), (2, 1)]], [[(2, None)]], [[(1, 1)]]],
    "a swapped row is deleted at once": [[[(1, 2), (2, 1)], [(2, None)]]],
    "a MERGE that moves a row and inserts at its key": [[[(None, 1), (1, 5)]]],
    "a MERGE that inserts and shifts": [[[(None, 1), (1, 2), (2, 3), (3, 6)]]],
}


class Manner(NamedTuple):
    # The unknown columns of before images.
    unsent: frozenset[str] = frozenset()
    # Rows differ only in their keys.
    equal: bool = False
    # The rows that existed from the beginning are not written.
    in_mid_stream: bool = False
    knows_transaction: bool = True


PLAIN = Manner()
SILENT = Manner(unsent=frozenset(CELLS))


class Reported(NamedTuple):
    """A ledger's rows in order, and the truth: the lives of rows, and the rows alive at the end."""

    rows: list[dict[str, Any]]
    lives: Counter[Life]
    alive: dict[int, tuple[Any, Any]]


def reported(scenario: Sequence[Transaction], number: int, manner: Manner = PLAIN) -> Reported:
    """Returns the scenario with its own keys, ids and positions."""
    return _Table(number, manner).reported([[[(None, 1), (None, 2), (None, 3), (None, 4)]], *scenario])


class _Table:
    def __init__(self, number: int, manner: Manner) -> None:
        self.number, self.manner = number, manner
        self.rows: dict[int, tuple[tuple[Any, Any], datetime]] = {}
        self.lives: Counter[Life] = Counter()
        self.ledger: list[dict[str, Any]] = []
        self.values = count(1)

    def reported(self, transactions: Sequence[Transaction]) -> Reported:
        for at, statements in enumerate(transactions):
            for statement in statements:
                self._statement(statement, at)
        begun = AT if self.manner.in_mid_stream else None
        for key, (cells, since) in self.rows.items():
            self.lives[self._key(key), *cells, since, None] += 1
        rows = [row for row in self.ledger if row["committed_at"] != begun]
        seen = {row[name][0] for row in rows for name in ("key", "previous_key") if row.get(name)}
        alive = {self._key(key): cells for key, (cells, since) in self.rows.items() if since != begun}
        lives = Counter(x for x in self.lives.elements() if x[0] in seen and x[3] != begun)
        return Reported(rows, lives, alive)

    def _statement(self, statement: Statement, transaction: int) -> None:
        now = AT + timedelta(minutes=transaction)
        removed = {old: self.rows.pop(old) for old, _ in statement if old is not None}
        for key, (cells, since) in removed.items():
            self.lives[self._key(key), *cells, since, now] += 1
        for old, new in statement:
            before = None if old is None else removed[old][0]
            after = None if new is None else self._cells(before)
            if new is not None and after is not None:
                assert new not in self.rows, "no table has two rows of one key"
                self.rows[new] = after, now
            self._write(old, new, before, after, transaction)

    def _cells(self, before: tuple[Any, Any] | None) -> tuple[Any, Any]:
        """Returns a row's cells after a change: an update changes b, and a stays."""
        if self.manner.equal:
            return (1, "same")
        return (next(self.values) if before is None else before[0], f"b{next(self.values)}")

    def _write(self, old: int | None, new: int | None, before: Any, after: Any, transaction: int) -> None:
        at = len(self.ledger)
        position = self.number.to_bytes(4) + transaction.to_bytes(2) + at.to_bytes(4)
        operation = change.INSERT if old is None else change.DELETE if new is None else change.UPDATE
        # A delete carries only its key, as Qlik's do.
        unsent = frozenset(CELLS) if operation == change.DELETE else self.manner.unsent
        key = new if new is not None else old
        assert key is not None
        row: dict[str, Any] = {
            "change_id": f"{self.number}.{at}", "operation": operation, "key": (self._key(key),),
            "sort_key": position, "commit_lsn": position, "committed_at": AT + timedelta(minutes=transaction),
            "source_position": ("t", 0, at, None), "feed": "feed",
        }  # fmt: skip
        # A column of text may hold an empty text where there is no transaction.
        unknown = ("", None)[at % 2]
        row["transaction_id"] = f"{self.number}.{transaction}" if self.manner.knows_transaction else unknown
        if old is not None:
            known = (None if name in unsent else cell for name, cell in zip(CELLS, before, strict=True))
            row["before"] = (self._key(old), *known)
            row["before_unknown_columns"] = dict.fromkeys(sorted(unsent), change.UNAVAILABLE) or None
        if new is not None:
            row["after"] = (self._key(new), *after)
        if old is not None and new is not None and old != new:
            row["previous_key"] = (self._key(old),)
        self.ledger.append(row)

    def _key(self, key: int) -> int:
        return self.number * 100 + key


def invented(rng: Random) -> list[Transaction]:
    """Returns random transactions; the rows of a statement are in an order that a tool may choose."""
    alive, transactions = {1, 2, 3, 4}, []
    for _ in range(rng.randint(1, 3)):
        statements = []
        for _ in range(rng.randint(1, 4)):
            statement = _statement(rng, alive)
            alive = (alive - {old for old, _ in statement}) | {new for _, new in statement if new is not None}
            statements.append(statement)
        transactions.append(statements)
    return transactions


def _statement(rng: Random, alive: set[int]) -> Statement:
    free = sorted(set(range(1, 9)) - alive)
    kind = rng.choice(("move", "move", "move", "merge", "delete", "insert", "update"))
    if kind == "insert" and free:
        return [(None, rng.choice(free))]
    if not alive:
        return [(None, 1)]
    moved = rng.sample(sorted(alive), rng.randint(1, min(4, len(alive))))
    if kind == "delete":
        return [(key, None) for key in moved[:1]]
    if kind == "update":
        return [(key, key) for key in moved]
    targets = rng.sample([*moved, *rng.sample(free, min(2, len(free)))], len(moved))
    moves: list[Move] = list(zip(moved, targets, strict=True))
    vacated = sorted(set(moved) - set(targets))
    if kind == "merge" and vacated:
        moves.append((None, vacated[0]))
    order = rng.choice(("ascending", "descending", "any"))
    if order == "any":
        return rng.sample(moves, len(moves))
    return sorted(moves, key=lambda move: move[0] or move[1] or 0, reverse=order == "descending")


def joined(parts: Iterable[Reported]) -> Reported:
    rows: list[dict[str, Any]] = []
    lives: Counter[Life] = Counter()
    alive: dict[int, tuple[Any, Any]] = {}
    for part in parts:
        rows += part.rows
        lives += part.lives
        alive |= part.alive
    return Reported(rows, lives, alive)
