"""Leases: one run at a time works on a feed, and a run that has lost its lease cannot write any more.

The comparison and the proofs of a database have leases, too, under the names of their DAGs, which no feed can
have. Two at once would overwrite each other's results, and one beside an erasure would keep erased rows.

A lease has a token that grows whenever another process takes it. A store that took a lease checks the token
in the transaction of each of its writes. So a run that slept past its lease, or was left behind by a lost
supervisor, cannot write beside the run that continues.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from sqlalchemy import and_, case, or_, update
from sqlalchemy.orm import Session

from changeledger import exit_codes
from changeledger.control.base import Part, Transactions, database_now, insert_into, worked_on
from changeledger.control.processes import has_ended_with
from changeledger.control.tables.base import LeaseRow
from changeledger.model.errors import ChangeledgerError, LeaseHeld, LeaseLost
from changeledger.pages.redaction import error_text

log = logging.getLogger("changeledger")

# How long a run keeps its lease without renewing it: between two stages, and after it died.
LEASE_SECONDS = 3600.0
# How long a failed run keeps its lease for its next try. Airflow's first retry comes after a minute.
_RETRY_SECONDS = 300.0
# How long work of one process stays with it when it gives no sign and nobody sees that it has gone: it has no
# next stage, and whoever asks again is another process.
PROCESS_SECONDS = 600.0
# So often a lease is renewed in its time.
_RENEWALS = 6
# The holder of a lease that was released.
_NOBODY = ""


class Leases(Part):
    def __init__(self, transactions: Transactions) -> None:
        super().__init__(transactions)
        self._process, self._tokens = transactions.process, transactions.tokens
        # When the leases were taken, by this process's monotonic clock, never later than by the database's.
        self.taken_at: dict[str, float] = {}

    def acquire(self, feed: str, holder: str, seconds: float) -> int:
        """Takes the feed's lease for `seconds`, or extends it. Returns the token.

        The holder's next process takes the lease at once, and what is left of the process before is fenced
        off. Raises LeaseHeld when another holder's lease has not ended yet.
        """
        asked = time.monotonic()
        with self._transaction() as session:
            now = database_now(session)
            insert = insert_into(session, LeaseRow).values(
                feed=feed,
                holder=holder,
                process=self._process,
                token=1,
                expires_at=now + timedelta(seconds=seconds),
            )
            new = insert.excluded
            same = and_(LeaseRow.holder == new.holder, LeaseRow.process == new.process)
            # A single statement, so that only one of two takers gets a row back, on either database.
            taken = insert.on_conflict_do_update(
                index_elements=[LeaseRow.feed],
                set_={
                    "holder": new.holder,
                    "process": new.process,
                    "token": case((same, LeaseRow.token), else_=LeaseRow.token + 1),
                    "expires_at": new.expires_at,
                },
                where=or_(LeaseRow.holder == new.holder, LeaseRow.expires_at <= now),
            ).returning(LeaseRow.token)
            row = session.execute(taken).first()
            if row is None and _end_of_gone(session, feed, now):
                row = session.execute(taken).first()
            if row is not None:
                self._tokens[feed], self.taken_at[feed] = row.token, asked
                return int(row.token)
            held = session.get_one(LeaseRow, feed)
        raise _is_held(held)

    def renew(self, feed: str, seconds: float) -> None:
        """Extends the lease. Raises LeaseLost if another process has taken it meanwhile."""
        with self._writing(feed) as session:
            until = database_now(session) + timedelta(seconds=seconds)
            # A released lease stays released.
            held = update(LeaseRow).where(LeaseRow.feed == feed, LeaseRow.holder != _NOBODY)
            session.execute(held.values(expires_at=until))

    def of_feed(self, feed: str) -> LeaseRow | None:
        """Returns the feed's lease, or None if nobody holds it."""
        with self._transaction() as session:
            held = session.get(LeaseRow, feed)
            return held if _stands(held, database_now(session)) else None

    def require_free(self, name: str) -> None:
        with self._transaction() as session:
            require_free(session, name)

    def release(self, feed: str, holder: str) -> None:
        """Releases the lease for others. Does nothing if `holder` no longer holds it."""
        self._end_lease(feed, holder, {"holder": _NOBODY})

    def leave(self, feed: str, holder: str) -> None:
        """Leaves the lease to the holder's next try for a while, and then to others."""
        self._end_lease(feed, holder, {}, _RETRY_SECONDS)

    def _end_lease(self, feed: str, holder: str, values: dict[str, str], after: float = 0) -> None:
        mine = [LeaseRow.feed == feed, LeaseRow.holder == holder]
        if feed in self._tokens:
            mine.append(LeaseRow.token == self._tokens[feed])
        with self._transaction() as session:
            until = database_now(session) + timedelta(seconds=after)
            session.execute(update(LeaseRow).where(*mine).values(expires_at=until, **values))


def require_free(session: Session, name: str) -> None:
    """Raises LeaseHeld while somebody has the lease. Nobody can take it before the transaction ends."""
    held = session.get(LeaseRow, name, with_for_update=True)
    if held is not None and _stands(held, database_now(session)):
        raise _is_held(held)


def _stands(held: LeaseRow | None, now: datetime) -> bool:
    return held is not None and held.expires_at > now and not has_ended_with(held.holder, held.process)


def _end_of_gone(session: Session, feed: str, now: datetime) -> bool:
    """Ends the lease if its process was killed on this machine. Returns whether it has ended."""
    held = session.get_one(LeaseRow, feed, with_for_update=True)
    if _stands(held, now):
        return False
    log.warning("%s has ended without giving up its lease", held.holder)
    held.expires_at = now
    session.flush()
    return True


def _is_held(lease: LeaseRow) -> LeaseHeld:
    return LeaseHeld(
        f"{lease.holder} works on {worked_on(lease.feed)} until {lease.expires_at:%Y-%m-%d %H:%M:%S} UTC",
        "wait for that run to end; if it died, its lease ends by itself at that time",
    )


@contextmanager
def lease_held(leases: Leases, name: str, holder: str, seconds: float = LEASE_SECONDS) -> Iterator[None]:
    """Holds a lease for work that ends with the block. Then it releases the lease, also after an error.

    Raises LeaseHeld if another holder has the lease, and LeaseLost as `lease_heartbeat` does.
    """
    leases.acquire(name, holder, seconds)
    try:
        with lease_heartbeat(leases, name, holder, seconds):
            yield
    except BaseException:
        _give_up(leases.release, name, holder)
        raise
    leases.release(name, holder)


@contextmanager
def lease_heartbeat(leases: Leases, feed: str, holder: str, seconds: float = LEASE_SECONDS) -> Iterator[None]:
    """Renews the lease of a feed that `leases` has taken, and ends the process if the lease is lost.

    After the block the holder keeps the lease for the next stage. After an error that is not retryable, other
    runs of the feed may begin at once; after another error, once the next try had its time. If the lease is
    lost, the error is LeaseLost, whatever error the work raised: the other run may have caused it.
    """
    heartbeat = _Heartbeat(leases, feed, seconds)
    heartbeat.begin()
    try:
        yield
    except Exception as error:
        lost = None if isinstance(error, LeaseLost) else _loss(leases, feed, seconds)
        if lost is not None:
            log.warning("%s", error_text(error))
            raise lost from error
        is_final = isinstance(error, ChangeledgerError) and not error.retryable
        _give_up(leases.release if is_final else leases.leave, feed, holder)
        raise
    except BaseException:
        _give_up(leases.leave, feed, holder)
        raise
    finally:
        heartbeat.over.set()


def _give_up(end: Callable[[str, str], None], feed: str, holder: str) -> None:
    """Ends the lease after an error of the work. If that fails, the lease ends in its time."""
    try:
        end(feed, holder)
    except Exception as error:  # noqa: BLE001 - the work's own error says more
        log.warning("%s keeps its lease until it expires: %s", holder, error_text(error))


def _loss(leases: Leases, feed: str, seconds: float) -> LeaseLost | None:
    try:
        leases.renew(feed, seconds)
    except LeaseLost as lost:
        return lost
    except Exception as error:  # noqa: BLE001 - nobody knows then, and the work's own error says more
        log.warning("%s", error)
    return None


class _Heartbeat:
    """Two threads that keep a lease.

    One renews the lease. The other ends the process when the lease expires, even while the first one waits
    for a database that does not answer.
    """

    def __init__(self, leases: Leases, feed: str, seconds: float) -> None:
        self.over = threading.Event()
        self._leases, self._feed, self._seconds = leases, feed, seconds
        # By this process's monotonic clock, never later than the lease ends by the database's.
        self._until = leases.taken_at[feed] + seconds

    def begin(self) -> None:
        for work in (self._renew, self._watch):
            threading.Thread(target=work, daemon=True).start()

    def _renew(self) -> None:
        while not self.over.wait(self._seconds / _RENEWALS):
            asked = time.monotonic()
            try:
                self._leases.renew(self._feed, self._seconds)
            except LeaseLost as error:
                self._end(error)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next try may succeed
                log.warning("the lease is not renewed: %s: %s", type(error).__name__, error)
            else:
                self._until = asked + self._seconds

    def _watch(self) -> None:
        while not self.over.wait(max(0.0, self._until - time.monotonic())):
            if time.monotonic() >= self._until:
                self._end(
                    LeaseLost(
                        f"this run's lease on {worked_on(self._feed)} has run out: it was not renewed for "
                        f"{self._seconds:.0f} s",
                        "check that the control store answers and can be written; the next try continues",
                    )
                )

    def _end(self, error: LeaseLost) -> None:
        """Ends the process at once: the stage would continue to work on what is now another run's."""
        if not self.over.is_set():
            log.error("%s: %s", type(error).__name__, error)
            logging.shutdown()
            os._exit(exit_codes.HELD)
