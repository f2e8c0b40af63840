"""Rollbacks: releases with the snapshots of an earlier release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from changeledger.control.base import Part, now
from changeledger.control.contracts import restore_contracts
from changeledger.control.feed_tables import set_lacking
from changeledger.control.releases import next_id, releases_of
from changeledger.control.sources import LEFT_MARKS, exchange_marks
from changeledger.control.standing import standing
from changeledger.control.tables.base import Position
from changeledger.control.tables.releases import ReleaseRow
from changeledger.control.tables.windows import TAKEN_BACK, PositionRow, WindowRow
from changeledger.control.windows import furthest


class Asked(NamedTuple):
    """A rollback as a person has asked for it. `keep_position`: the next run reads nothing again."""

    reason: str
    by: str
    keep_position: bool = False


class Rollbacks(Part):
    def commit(
        self, feed: str, target: int, tables: Mapping[str, int], asked: Asked, in_lake: int = 0
    ) -> ReleaseRow:
        """Commits a rollback to the release `target`: release row, contracts, position and windows' status.

        This is its commit point, in one transaction. `in_lake`: the newest release id in the lake. The caller
        must hold the feed's lease.
        """
        with self._writing(feed) as session:
            releases = session.scalars(releases_of(feed)).all()
            to = next(row for row in releases if row.id == target)
            position = session.get_one(PositionRow, feed, with_for_update=True)
            if not asked.keep_position:
                position.position, position.window_id, position.updated_at = to.positions, to.window_id, now()
            release = ReleaseRow(
                feed=feed,
                id=next_id(session, feed, in_lake),
                window_id=to.window_id,
                status="committed",
                changes=0,
                tables=dict(tables),
                counts={name: count for name, count in to.counts.items() if name != LEFT_MARKS},
                positions=position.position,
                created_at=now(),
                rolled_back_to=target,
                reason=asked.reason,
                by=asked.by,
            )
            session.add(release)
            restore_contracts(session, release)
            _restore_lacking(session, releases, target)
            if not asked.keep_position:
                _mark_windows(session, releases, to)
                marks = _marks_of_other_sources(releases, to)
                if marks is not None:
                    exchange_marks(session, release, marks)
            return release


def _restore_lacking(session: Session, releases: Sequence[ReleaseRow], target: int) -> None:
    """Lets tables lack again what a release that is now taken back had read again for them."""
    kept, until_now = standing(releases, target), standing(releases)
    for row in releases:
        if row.read_again and (row.id in kept) != (row.id in until_now):
            gone = row.id in until_now
            set_lacking(
                session, row.feed, {table: count if gone else 0 for table, count in row.read_again.items()}
            )


def _mark_windows(session: Session, releases: Sequence[ReleaseRow], to: ReleaseRow) -> None:
    """Marks windows of standing releases as released, and others as taken back.

    Windows of other releases, and windows that begin or end beyond the feed's position, are taken back: with
    their stored positions they would skip records.
    """
    kept = standing(releases, to.id)
    by_run = [row for row in releases if not row.is_rollback]
    known = {row.window_id for row in by_run}
    stand = {row.window_id for row in by_run if row.id in kept}
    for window in session.scalars(select(WindowRow).where(WindowRow.feed == to.feed)):
        if window.window_id in stand:
            window.status = "released"
        elif window.window_id in known or _is_behind(window, to.positions):
            window.status = TAKEN_BACK


def _is_behind(window: WindowRow, position: Position) -> bool:
    """Returns whether a window lies beyond the position.

    An empty window counts by its end, to which it has moved the feed; an open one by its start, from which it
    reads.
    """
    reached = window.to_position if window.done else window.from_position
    return reached is not None and furthest(position, reached) != position


def _marks_of_other_sources(releases: Sequence[ReleaseRow], to: ReleaseRow) -> Mapping[str, Any] | None:
    """Returns the marks of the sources that the position of the release `to` belongs to.

    None if the feed still reads the same sources. Only after a reset may it read others of the same name.
    """
    since = _read_since(releases)
    if since[to.id] == since[releases[-1].id]:
        return None
    left = [
        after
        for before, after in pairwise(releases)
        if since[before.id] == since[to.id] and since[after.id] != since[to.id]
    ]
    marks: Mapping[str, Any] = left[-1].counts.get(LEFT_MARKS, {}) if left else {}
    return marks


def _read_since(releases: Sequence[ReleaseRow]) -> dict[int, int]:
    """Returns for each release the release of the reset since which its sources are read; 0 before any."""
    since: dict[int, int] = {}
    positions = {row.id: row.positions for row in releases}
    last = 0
    for row in releases:
        if row.rolled_back_to is None:
            last = row.id if LEFT_MARKS in row.counts else last
        elif row.positions == positions[row.rolled_back_to]:
            last = since[row.rolled_back_to]
        since[row.id] = last
    return since
