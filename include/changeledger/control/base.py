"""Engine, transactions and clock of the control store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Executable, Select, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from changeledger.control.database import engine_for, reachable, upgrade
from changeledger.control.processes import this_process
from changeledger.control.tables.base import ControlTable, LeaseRow
from changeledger.model.database_work import COMPARISONS, PROOFS
from changeledger.model.errors import LeaseLost
from changeledger.model.table_names import NAMESPACE

# Migrations are checked once per process and database.
_upgraded = cache(upgrade)
_PROCESS = this_process()
# Databases take so many parameters in a statement.
_AT_ONCE = 500
# What leases of databases are for, by the beginning of their names.
_OF_DATABASES = {COMPARISONS: "the comparison of", PROOFS: "the proofs of"}
Of = TypeVar("Of")
Key = TypeVar("Key")


class Transactions:
    """Transactions of the store at `url`. Brings its schema up to date first.

    `process`: the id under which leases are taken; by default that of this process. Once the process has
    taken a feed's lease, it can write for that feed only while it holds the lease.
    `tokens`: tokens of the leases that it took, by feed.
    """

    def __init__(self, url: str, process: str | None = None) -> None:
        _upgraded(url)
        self._engine = engine_for(url)
        self.process = process or _PROCESS
        self.tokens: dict[str, int] = {}

    @contextmanager
    def any(self) -> Iterator[Session]:
        with (
            reachable(self._engine),
            Session(self._engine, expire_on_commit=False) as session,
            session.begin(),
        ):
            yield session

    @contextmanager
    def writing(self, feed: str) -> Iterator[Session]:
        """Begins a transaction that writes for the feed. Raises LeaseLost if another one took its lease."""
        with self.any() as session:
            token = self.tokens.get(feed)
            if token is not None:
                # The row is locked, so that nobody takes the lease before this transaction ends.
                held = session.get(LeaseRow, feed, with_for_update=True)
                if held is None or held.token != token:
                    raise lost(feed, held)
            yield session


class Part:
    """A part of the control store's operations. Each operation is one transaction."""

    def __init__(self, transactions: Transactions) -> None:
        self._transaction, self._writing = transactions.any, transactions.writing

    def _get(self, table: type[Of], key: object) -> Of | None:
        with self._transaction() as session:
            return session.get(table, key)

    def _first(self, query: Select[Of]) -> Of | None:
        with self._transaction() as session:
            return session.scalar(query.limit(1))

    def _all(self, query: Select[Of]) -> list[Of]:
        with self._transaction() as session:
            return list(session.scalars(query))

    def _rows(self, query: Executable) -> Sequence[Any]:
        """Returns the rows of a query of several columns."""
        with self._transaction() as session:
            return session.execute(query).all()


def lost(feed: str, held: LeaseRow | None) -> LeaseLost:
    # The other run may have ended already.
    taker = (held and held.holder) or "another run"
    return LeaseLost(
        f"this run has lost its lease on {worked_on(feed)} to {taker}; nothing that it does from now on "
        "counts",
        "do nothing: the run that has the lease continues; if that is a retry of this run, see its log",
    )


def worked_on(name: str) -> str:
    """Describes what a lease of that name is for."""
    if name == NAMESPACE:
        return "what was found of rows of all feeds"
    for beginning, words in _OF_DATABASES.items():
        if name.startswith(beginning):
            return f"{words} {name.removeprefix(beginning)!r}"
    return f"the feed {name!r}"


def database_now(session: Session) -> datetime:
    """Returns the time by the database's clock: clocks of machines that share a store may differ."""
    if session.get_bind().dialect.name == "sqlite":
        moment = session.scalar(select(func.strftime("%Y-%m-%dT%H:%M:%f", "now")))
        return datetime.fromisoformat(str(moment)).replace(tzinfo=UTC)
    return datetime.fromisoformat(str(session.scalar(select(func.now())))).astimezone(UTC)


def now() -> datetime:
    return datetime.now(UTC)


def insert_into(session: Session, table: type[ControlTable]) -> Any:
    """Returns the database's own INSERT, which supports ON CONFLICT."""
    return {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[session.get_bind().dialect.name](table)


def insert_if_absent(session: Session, into: type[ControlTable], /, **values: Any) -> bool:
    """Inserts a row unless its key or unique columns exist already. Returns whether it was inserted."""
    insert = insert_into(session, into).values(**values)
    result = session.execute(insert.on_conflict_do_nothing().returning(*into.__table__.primary_key))
    return result.first() is not None


def grouped(pairs: Iterable[tuple[Key, Of]]) -> dict[Key, list[Of]]:
    """Returns the values of each key; both keep the order in which they come."""
    groups: dict[Key, list[Of]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def parts(ids: Iterable[str]) -> Iterator[Sequence[str]]:
    """Yields the ids in parts that fit into one statement."""
    left = iter(ids)
    while part := list(islice(left, _AT_ONCE)):
        yield part
