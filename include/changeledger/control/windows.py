"""Windows, how far a feed is released, and what the stages of a window have built."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from changeledger.control.base import Part, insert_if_absent, now
from changeledger.control.tables.base import Position
from changeledger.control.tables.releases import AuditRow, ReleaseRow
from changeledger.control.tables.windows import (
    DONE,
    TAKEN_BACK,
    BuiltSnapshots,
    PositionRow,
    StageRow,
    WindowRow,
)
from changeledger.model.contract import Contract
from changeledger.model.window import STAGES, Window


class Windows(Part):
    def open(
        self,
        feed: str,
        window: Window,
        from_position: Position | None,
        to_position: Position,
        *,
        anew: bool = False,
    ) -> WindowRow:
        """Stores the positions that the window reads, and returns it. A stored window keeps its positions.

        A window that was taken back gets the new ones: its own may skip records that must be read again. So
        does every stored window with `anew`, for which the caller found that its positions cannot be read.
        """
        with self._writing(feed) as session:
            insert_if_absent(
                session,
                WindowRow,
                feed=feed,
                window_id=window.id,
                start=window.start,
                end=window.end,
                from_position=from_position,
                to_position=to_position,
                status="open",
                opened_at=now(),
                asked=_asked(window),
            )
            row = session.get_one(WindowRow, (feed, window.id))
            if row.taken_back or anew:
                row.from_position, row.to_position = from_position, to_position
                row.status, row.built_on, row.opened_at = "open", None, now()
            return row

    def keep_request(self, feed: str, window: Window) -> None:
        """Stores what is now asked of a stored window: the real run may follow a dry run."""
        stored = update(WindowRow).where(WindowRow.feed == feed, WindowRow.window_id == window.id)
        with self._writing(feed) as session:
            session.execute(stored.values(asked=_asked(window)))

    def begin_stage(self, feed: str, window: Window, stage: str) -> None:
        """Forgets what this stage and later ones have built and judged, before it is built again.

        For normalize, also notes the newest release, since normalize begins its branches at main.
        """
        later = STAGES[STAGES.index(stage) :]
        with self._writing(feed) as session:
            _delete_stages(session, feed, window.id, later)
            if stage == "normalize":
                session.get_one(WindowRow, (feed, window.id)).built_on = last_release(session, feed)

    def finish_stage(
        self, feed: str, window: Window, stage: str, built: BuiltSnapshots, contracts: Iterable[Contract] = ()
    ) -> None:
        """Stores what the stage has built, and by which contracts, in place of an earlier try."""
        bodies = {contract.table: contract.model_dump(mode="json") for contract in contracts}
        with self._writing(feed) as session:
            add_stage(session, feed, window, stage, built).contracts = bodies

    def contracts_of(self, feed: str, window: Window) -> dict[str, Contract]:
        """Returns the contracts that normalize has found in the window's records, by table."""
        with self._transaction() as session:
            row = session.get(StageRow, (feed, window.id, "normalize"))
            bodies = (row and row.contracts) or {}
            return {table: Contract.model_validate(body) for table, body in bodies.items()}

    def forget_stages_of_others(self, feed: str, window: Window) -> None:
        """Forgets what other windows have built: if they run again, they start from normalize."""
        others = StageRow.feed == feed, StageRow.window_id != window.id, StageRow.stage != "extract"
        with self._writing(feed) as session:
            session.execute(delete(StageRow).where(*others))

    def stage(self, feed: str, window: Window, stage: str) -> StageRow | None:
        """Returns what a stage of the window has built; None if the stage is not done."""
        return self._get(StageRow, (feed, window.id, stage))

    def pin_replay(self, feed: str, window: Window, snapshot: int | None) -> None:
        """Pins the snapshot of the replay list that the window reads."""
        with self._writing(feed) as session:
            session.get_one(WindowRow, (feed, window.id)).replay_snapshot = snapshot

    def stands_on_main(self, window: WindowRow) -> bool:
        """Returns whether main is still what the window's branches began from."""
        with self._transaction() as session:
            return window.built_on == last_release(session, window.feed)

    def close_empty(self, feed: str, window: Window, position: Position) -> None:
        """Closes a window that has nothing new: the next one begins at `position`, without a release."""
        with self._writing(feed) as session:
            advance(session, feed, window.id, position)
            session.get_one(WindowRow, (feed, window.id)).status = "empty"

    def row(self, feed: str, window_id: str) -> WindowRow | None:
        return self._get(WindowRow, (feed, window_id))

    def ids(self, feed: str) -> list[str]:
        """Of all windows of the feed, the oldest first."""
        query = select(WindowRow.window_id).where(WindowRow.feed == feed).order_by(WindowRow.window_id)
        return [row.window_id for row in self._rows(query)]

    def all_open(self, feed: str) -> list[WindowRow]:
        """Returns extracted windows that are neither released, empty nor taken back, the oldest first."""
        query = select(WindowRow).where(WindowRow.feed == feed, WindowRow.status == "open")
        return self._all(query.order_by(WindowRow.opened_at))

    def reached(self, feed: str) -> datetime | None:
        """The latest end of a window that is done; those that read again do not count."""
        furthest_window = self.furthest(feed)
        return None if furthest_window is None else furthest_window.end

    def furthest(self, feed: str) -> WindowRow | None:
        """The window with the latest end, of those that `reached` counts."""
        query = select(WindowRow).where(WindowRow.feed == feed, WindowRow.status.in_(DONE))
        with self._transaction() as session:
            done = session.scalars(query.order_by(WindowRow.end.desc()))
            return next((row for row in done if not row.request.reads_again), None)

    def last(self, feed: str) -> WindowRow | None:
        """Returns the window opened last."""
        query = select(WindowRow).where(WindowRow.feed == feed)
        return self._first(query.order_by(WindowRow.opened_at.desc()))

    def position(self, feed: str) -> Position | None:
        """Returns how far the feed's releases reach; None before the first one."""
        row = self._get(PositionRow, feed)
        return None if row is None else row.position


def add_stage(session: Session, feed: str, window: Window, stage: str, built: BuiltSnapshots) -> StageRow:
    _delete_stages(session, feed, window.id, STAGES[STAGES.index(stage) :])
    row = StageRow(feed=feed, window_id=window.id, stage=stage, at=now(), **built._asdict())
    session.add(row)
    return row


def _delete_stages(session: Session, feed: str, window_id: str, stages: Sequence[str]) -> None:
    mine = StageRow.feed == feed, StageRow.window_id == window_id, StageRow.stage.in_(stages)
    session.execute(delete(StageRow).where(*mine))
    session.execute(delete(AuditRow).where(AuditRow.feed == feed, AuditRow.window_id == window_id))


def _asked(window: Window) -> dict[str, Any]:
    return window.request.model_dump(mode="json", exclude_defaults=True)


def last_release(session: Session, feed: str) -> int:
    """Returns the id of the newest release, 0 before the first."""
    return session.scalar(select(func.max(ReleaseRow.id)).where(ReleaseRow.feed == feed)) or 0


def advance(session: Session, feed: str, window_id: str, position: Position) -> None:
    fresh = insert_if_absent(
        session, PositionRow, feed=feed, position=position, window_id=window_id, updated_at=now()
    )
    if fresh:
        return
    row = session.get_one(PositionRow, feed, with_for_update=True)
    reached = furthest(row.position, position)
    if reached != row.position:
        row.position, row.window_id, row.updated_at = reached, window_id, now()


def set_position(session: Session, feed: str, window_id: str, position: Position) -> None:
    """Sets how far the feed is released, whatever was known before."""
    row = session.get_one(PositionRow, feed, with_for_update=True)
    row.position, row.window_id, row.updated_at = position, window_id, now()


def take_back_open(session: Session, feed: str) -> None:
    """Takes back open windows: they are resolved again if they run again, and their results are forgotten."""
    query = select(WindowRow).where(WindowRow.feed == feed, WindowRow.status == "open")
    for window in session.scalars(query):
        window.status = TAKEN_BACK
        _delete_stages(session, feed, window.window_id, STAGES)


def furthest(known: Any, new: Any) -> Any:
    """Returns the further of two positions, part by part: a past window never moves a feed back."""
    if isinstance(known, dict) and isinstance(new, dict):
        return {
            part: furthest(known.get(part, new.get(part)), new.get(part, known.get(part)))
            for part in {**known, **new}
        }
    return max(known, new)
