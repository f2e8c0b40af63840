"""The operations of the control store. Each is one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import delete, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from changeledger.contract import Contract
from changeledger.errors import LeaseHeld, StageOrderError
from changeledger.mask_order import Evidence, Reading
from changeledger.storage.control.database import engine_for, reachable, upgrade
from changeledger.storage.control.models import (
    AuditRow,
    ComparisonRow,
    ContractRow,
    ControlTable,
    LeaseRow,
    MaskEvidenceRow,
    Position,
    PositionRow,
    ProofRow,
    ReleaseRow,
    ShapeRow,
    SnapshotRow,
    WindowRow,
    WriterSchemaRow,
)
from changeledger.window import Window

# Migrations are looked at once per process and database.
_upgraded = cache(upgrade)


class Verdict(NamedTuple):
    """What one rule found in one table of a window. `violations` counts rows."""

    table: str
    rule: str
    success: bool
    violations: int
    detail: dict[str, Any]


class ControlStore:
    """Opens the store at `url` and brings its schema up to date."""

    def __init__(self, url: str) -> None:
        _upgraded(url)
        self._engine = engine_for(url)

    # --- windows and positions

    def open_window(
        self, feed: str, window: Window, from_position: Position | None, to_position: Position
    ) -> WindowRow:
        """Store what the window reads. Where it is stored already, that one wins and is returned."""
        with self._transaction() as session:
            _insert_if_absent(
                session,
                WindowRow,
                feed=feed,
                window_id=window.id,
                start=window.start,
                end=window.end,
                from_position=from_position,
                to_position=to_position,
                status="open",
                opened_at=_now(),
                asked=_asked(window),
            )
            return session.get_one(WindowRow, (feed, window.id))

    def keep_request(self, feed: str, window: Window) -> None:
        """What is asked of a stored window now: a dry run may be followed by the true one."""
        stored = update(WindowRow).where(WindowRow.feed == feed, WindowRow.window_id == window.id)
        with self._transaction() as session:
            session.execute(stored.values(asked=_asked(window)))

    def build_on(self, feed: str, window: Window) -> None:
        """The window's branches begin at main as the newest release has left it."""
        with self._transaction() as session:
            newest = _latest_release(session, feed)
            session.get_one(WindowRow, (feed, window.id)).built_on = 0 if newest is None else newest.id

    def stands_on_main(self, window: WindowRow) -> bool:
        """Is main still what the window's branches began from?"""
        with self._transaction() as session:
            newest = _latest_release(session, window.feed)
            return window.built_on == (0 if newest is None else newest.id)

    def close_empty(self, feed: str, window: Window, position: Position) -> None:
        """The window has nothing new: the next one begins at `position`, without a release."""
        with self._transaction() as session:
            _advance(session, feed, window.id, position)
            session.get_one(WindowRow, (feed, window.id)).status = "empty"

    def window(self, feed: str, window: Window) -> WindowRow | None:
        return self.window_row(feed, window.id)

    def window_row(self, feed: str, window_id: str) -> WindowRow | None:
        with self._transaction() as session:
            return session.get(WindowRow, (feed, window_id))

    def open_windows(self, feed: str) -> list[WindowRow]:
        """Extracted, and neither released nor empty; the oldest first."""
        query = select(WindowRow).where(WindowRow.feed == feed, WindowRow.status == "open")
        with self._transaction() as session:
            return list(session.scalars(query.order_by(WindowRow.opened_at)))

    def reached(self, feed: str) -> datetime | None:
        """The latest end of a window that is done; those that read again tell nothing of it."""
        query = select(WindowRow).where(WindowRow.feed == feed, WindowRow.status != "open")
        with self._transaction() as session:
            done = session.scalars(query.order_by(WindowRow.end.desc()))
            return next((row.end for row in done if not row.request.reads_again), None)

    def last_window(self, feed: str) -> WindowRow | None:
        """The one opened last."""
        query = select(WindowRow).where(WindowRow.feed == feed).order_by(WindowRow.opened_at.desc()).limit(1)
        with self._transaction() as session:
            return session.scalar(query)

    def position(self, feed: str) -> Position | None:
        """How far the feed's releases reach; None before the first one."""
        with self._transaction() as session:
            row = session.get(PositionRow, feed)
            return None if row is None else row.position

    # --- contracts

    def contract(self, feed: str, table: str) -> Contract | None:
        """The newest contract of a table (`schema.table`)."""
        with self._transaction() as session:
            row = _newest_contract(session, feed, table)
            return None if row is None else Contract.model_validate(row.body)

    def contracts(self, feed: str) -> dict[str, Contract]:
        """The newest contract of every table of the feed."""
        query = select(ContractRow).where(ContractRow.feed == feed).order_by(ContractRow.version)
        with self._transaction() as session:
            return {row.table: Contract.model_validate(row.body) for row in session.scalars(query)}

    def save_contract(self, feed: str, contract: Contract, window_id: str) -> int:
        """The contract's version: a new one only where it differs from the newest."""
        body = contract.model_dump(mode="json")
        with self._transaction() as session:
            newest = _newest_contract(session, feed, contract.table)
            if newest is not None and newest.body == body:
                return newest.version
            version = 1 if newest is None else newest.version + 1
            session.add(
                ContractRow(
                    feed=feed,
                    table=contract.table,
                    version=version,
                    body=body,
                    window_id=window_id,
                    created_at=_now(),
                )
            )
            return version

    def shapes(self, feed: str) -> dict[str, Contract]:
        """The shapes that the feed's writers have told, by id."""
        query = select(ShapeRow).where(ShapeRow.feed == feed).order_by(ShapeRow.created_at, ShapeRow.shape_id)
        with self._transaction() as session:
            return {row.shape_id: Contract.model_validate(row.body) for row in session.scalars(query)}

    def save_shape(self, feed: str, shape_id: str, shape: Contract, window_id: str) -> None:
        """Keep what a writer tells of its columns; what it tells last counts."""
        body = shape.model_dump(mode="json")
        with self._transaction() as session:
            fresh = _insert_if_absent(
                session,
                ShapeRow,
                feed=feed,
                shape_id=shape_id,
                body=body,
                window_id=window_id,
                created_at=_now(),
            )
            if not fresh:
                session.get_one(ShapeRow, (feed, shape_id)).body = body

    def writer_schemas(self, feed: str) -> dict[str, str]:
        """The Avro schemas that the feed's messages have named so far, by id."""
        query = select(WriterSchemaRow).where(WriterSchemaRow.feed == feed)
        with self._transaction() as session:
            return {row.schema_id: row.body for row in session.scalars(query)}

    def save_writer_schema(self, feed: str, schema_id: str, body: str, window_id: str) -> None:
        """Keep a schema; one that is kept already stays."""
        with self._transaction() as session:
            _insert_if_absent(
                session,
                WriterSchemaRow,
                feed=feed,
                schema_id=schema_id,
                body=body,
                window_id=window_id,
                created_at=_now(),
            )

    # --- comparisons

    def save_comparison(self, row: ComparisonRow) -> None:
        """Keep it in place of an earlier one of the same id."""
        with self._transaction() as session:
            session.merge(row)

    def comparisons(self, database: str) -> list[ComparisonRow]:
        """Of a database, the oldest first."""
        query = select(ComparisonRow).where(ComparisonRow.database == database)
        with self._transaction() as session:
            return list(session.scalars(query.order_by(ComparisonRow.at, ComparisonRow.id)))

    def last_comparisons(self, database: str) -> dict[tuple[str, str], list[ComparisonRow]]:
        """The last one of each table, by reference and feed."""
        last = {(row.reference, row.feed, row.table): row for row in self.comparisons(database)}
        pairs: dict[tuple[str, str], list[ComparisonRow]] = {}
        for (reference, feed, _), row in last.items():
            pairs.setdefault((reference, feed), []).append(row)
        return pairs

    # --- proofs

    def save_snapshot(self, row: SnapshotRow) -> None:
        with self._transaction() as session:
            session.merge(row)

    def last_snapshot(self, database: str) -> SnapshotRow | None:
        """What was read of a database's source last."""
        query = select(SnapshotRow).where(SnapshotRow.database == database)
        with self._transaction() as session:
            return session.scalar(query.order_by(SnapshotRow.at.desc()).limit(1))

    def save_proof(self, row: ProofRow) -> None:
        """Keep it in place of an earlier one of the same id."""
        with self._transaction() as session:
            session.merge(row)

    def proofs(self, database: str) -> list[ProofRow]:
        """Of a database, the oldest first."""
        query = select(ProofRow).where(ProofRow.database == database)
        with self._transaction() as session:
            return list(session.scalars(query.order_by(ProofRow.at, ProofRow.id)))

    def last_proofs(self, database: str) -> dict[str, list[ProofRow]]:
        """The last one of each table and of what it was held against, by feed."""
        last = {(row.feed, row.table, row.against): row for row in self.proofs(database)}
        feeds: dict[str, list[ProofRow]] = {}
        for (feed, *_), row in sorted(last.items()):
            feeds.setdefault(feed, []).append(row)
        return feeds

    # --- masks

    def mask_evidence(self, feed: str) -> dict[str, MaskEvidenceRow]:
        """What is known of the masks of a feed's tables, by table."""
        query = select(MaskEvidenceRow).where(MaskEvidenceRow.feed == feed).order_by(MaskEvidenceRow.table)
        with self._transaction() as session:
            return {row.table: row for row in session.scalars(query)}

    def save_mask_evidence(
        self, feed: str, table: str, window: Window, found: Evidence, reading: Reading
    ) -> None:
        """Add what a window says, and keep what was made of it. No window counts twice.

        The last window's evidence is replaced when it runs again. A replayed window between the first and
        the last has been counted already, so its evidence is left alone.
        """
        proved = reading.order if reading.settled else None
        with self._transaction() as session:
            fresh = _insert_if_absent(
                session,
                MaskEvidenceRow,
                feed=feed,
                table=table,
                counts=_counts(Evidence(), found),
                mask_order=proved,
                why=reading.why,
                first_window=window.id,
                last_window=window.id,
                updated_at=_now(),
            )
            row = session.get_one(MaskEvidenceRow, (feed, table), with_for_update=True)
            if fresh or row.first_window <= window.id < row.last_window:
                return
            if window.id < row.first_window:
                row.counts, row.first_window = _counts(found + row.earlier, row.last), window.id
            elif window.id == row.last_window:
                row.counts = _counts(row.earlier, found)
            else:
                row.counts, row.last_window = _counts(row.total, found), window.id
            row.mask_order, row.why, row.updated_at = proved, reading.why, _now()

    # --- releases

    def commit_release(
        self,
        feed: str,
        window: Window,
        tables: dict[str, int],
        counts: dict[str, Any],
        position: Position,
    ) -> int:
        """The commit point of a run: release row, position and the window's status together.

        Done once per window: a second call changes nothing and returns the first one's id.
        """
        with self._transaction() as session:
            fresh = _insert_if_absent(
                session,
                ReleaseRow,
                feed=feed,
                window_id=window.id,
                status="committed",
                tables=tables,
                counts=counts,
                positions=position,
                created_at=_now(),
            )
            if fresh:
                _advance(session, feed, window.id, position)
                _mark_released(session, feed, window.id)
            release = _release(session, feed, window.id)
            assert release is not None, "inserted or found above"
            return release.id

    def complete_release(self, release_id: int) -> None:
        """Every table of the release is moved and tagged. A second call changes nothing."""
        with self._transaction() as session:
            release = session.get_one(ReleaseRow, release_id)
            if not release.completed:
                release.status = "completed"
                release.completed_at = _now()

    def incomplete_releases(self, feed: str) -> list[ReleaseRow]:
        """Committed, but a crash came before all tables were moved; the oldest first."""
        query = select(ReleaseRow).where(ReleaseRow.feed == feed, ReleaseRow.status == "committed")
        with self._transaction() as session:
            return list(session.scalars(query.order_by(ReleaseRow.id)))

    def release(self, feed: str, window: Window) -> ReleaseRow | None:
        with self._transaction() as session:
            return _release(session, feed, window.id)

    def latest_release(self, feed: str) -> ReleaseRow | None:
        """The one committed last, whatever its window."""
        with self._transaction() as session:
            return _latest_release(session, feed)

    def releases_after(self, feed: str, release_id: int) -> list[ReleaseRow]:
        """Completed ones that were committed later than that one; the oldest first."""
        query = select(ReleaseRow).where(
            ReleaseRow.feed == feed, ReleaseRow.id > release_id, ReleaseRow.status == "completed"
        )
        with self._transaction() as session:
            return list(session.scalars(query.order_by(ReleaseRow.id)))

    def releases_before(self, feed: str, moment: datetime) -> list[ReleaseRow]:
        """Committed before that moment; the newest release of all is not among them."""
        query = select(ReleaseRow).where(ReleaseRow.feed == feed).order_by(ReleaseRow.id)
        with self._transaction() as session:
            return [row for row in list(session.scalars(query))[:-1] if row.created_at < moment]

    # --- audits

    def save_audit(self, feed: str, window: Window, verdicts: Sequence[Verdict]) -> None:
        """Keep the verdicts of a window's audit, instead of those of an earlier attempt."""
        at = _now()
        with self._transaction() as session:
            session.execute(delete(AuditRow).where(AuditRow.feed == feed, AuditRow.window_id == window.id))
            session.add_all(
                AuditRow(feed=feed, window_id=window.id, at=at, **verdict._asdict()) for verdict in verdicts
            )

    def audits(self, feed: str, window: Window) -> list[AuditRow]:
        return self.audits_of(feed, window.id)

    def audits_of(self, feed: str, window_id: str) -> list[AuditRow]:
        query = select(AuditRow).where(AuditRow.feed == feed, AuditRow.window_id == window_id)
        with self._transaction() as session:
            return list(session.scalars(query.order_by(AuditRow.table, AuditRow.rule)))

    # --- leases

    def acquire_lease(self, feed: str, holder: str, seconds: float) -> None:
        """Be the only one at work on `feed` for `seconds`, or longer by asking again.

        Raises LeaseHeld when another holder's lease has not expired yet.
        """
        now = _now()
        insert = _insert(self._engine.dialect.name)(LeaseRow).values(
            feed=feed, holder=holder, expires_at=now + timedelta(seconds=seconds)
        )
        # One statement, so that of two takers only one gets a row back, on either database.
        taken = insert.on_conflict_do_update(
            index_elements=[LeaseRow.feed],
            set_={"holder": insert.excluded.holder, "expires_at": insert.excluded.expires_at},
            where=(LeaseRow.holder == insert.excluded.holder) | (LeaseRow.expires_at <= now),
        ).returning(LeaseRow.feed)
        with self._transaction() as session:
            if session.execute(taken).first() is not None:
                return
            held = session.get_one(LeaseRow, feed)
        raise LeaseHeld(
            f"{held.holder} is at work on the feed {feed!r} until {held.expires_at:%Y-%m-%d %H:%M:%S} UTC",
            "wait for that run to end; if it died, its lease ends by itself at that time",
        )

    def lease(self, feed: str) -> LeaseRow | None:
        """Who holds the feed, or held it last: a lease may have expired."""
        with self._transaction() as session:
            return session.get(LeaseRow, feed)

    def release_lease(self, feed: str, holder: str) -> None:
        """Let the next one in. Nothing happens where `holder` does not hold the lease."""
        with self._transaction() as session:
            session.execute(delete(LeaseRow).where(LeaseRow.feed == feed, LeaseRow.holder == holder))

    @contextmanager
    def _transaction(self) -> Iterator[Session]:
        with (
            reachable(self._engine),
            Session(self._engine, expire_on_commit=False) as session,
            session.begin(),
        ):
            yield session


def _now() -> datetime:
    return datetime.now(UTC)


def _insert(dialect: str) -> Any:
    """The dialect's INSERT that knows ON CONFLICT."""
    return {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[dialect]


def _insert_if_absent(session: Session, into: type[ControlTable], /, **values: Any) -> bool:
    """Whether the row was inserted; another row with its key or unique columns is left as it is."""
    insert = _insert(session.get_bind().dialect.name)(into).values(**values)
    result = session.execute(insert.on_conflict_do_nothing().returning(*into.__table__.primary_key))
    return result.first() is not None


def _newest_contract(session: Session, feed: str, table: str) -> ContractRow | None:
    query = select(ContractRow).where(ContractRow.feed == feed, ContractRow.table == table)
    return session.scalar(query.order_by(ContractRow.version.desc()).limit(1))


def _asked(window: Window) -> dict[str, Any]:
    return window.request.model_dump(mode="json", exclude_defaults=True)


def _counts(earlier: Evidence, last: Evidence) -> dict[str, Any]:
    return {"earlier": earlier.model_dump(), "last": last.model_dump()}


def _release(session: Session, feed: str, window_id: str) -> ReleaseRow | None:
    query = select(ReleaseRow).where(ReleaseRow.feed == feed, ReleaseRow.window_id == window_id)
    return session.scalar(query)


def _latest_release(session: Session, feed: str) -> ReleaseRow | None:
    query = select(ReleaseRow).where(ReleaseRow.feed == feed).order_by(ReleaseRow.id.desc()).limit(1)
    return session.scalar(query)


def _mark_released(session: Session, feed: str, window_id: str) -> None:
    opened = update(WindowRow).where(WindowRow.feed == feed, WindowRow.window_id == window_id)
    if session.execute(opened.values(status="released").returning(WindowRow.feed)).first() is None:
        raise StageOrderError(
            f"the window {window_id} of the feed {feed!r} was never opened", "run its extract stage first"
        )


def _advance(session: Session, feed: str, window_id: str, position: Position) -> None:
    fresh = _insert_if_absent(
        session, PositionRow, feed=feed, position=position, window_id=window_id, updated_at=_now()
    )
    if fresh:
        return
    row = session.get_one(PositionRow, feed, with_for_update=True)
    reached = furthest(row.position, position)
    if reached != row.position:
        row.position, row.window_id, row.updated_at = reached, window_id, _now()


def furthest(known: Any, new: Any) -> Any:
    """The further of two positions, part by part: a replayed old window never moves a feed back."""
    if isinstance(known, dict) and isinstance(new, dict):
        return {
            part: furthest(known.get(part, new.get(part)), new.get(part, known.get(part)))
            for part in {**known, **new}
        }
    return max(known, new)
