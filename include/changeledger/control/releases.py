"""Releases: what runs have published."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Select, Text, cast, func, select
from sqlalchemy.orm import Session

from changeledger.control.audits import audits_of
from changeledger.control.base import Part, now
from changeledger.control.contracts import add_contract
from changeledger.control.feed_tables import note_read_again
from changeledger.control.resets import end_reset, pending_reset
from changeledger.control.sources import exchange_marks, marks_of_reset
from changeledger.control.standing import ReleaseHead, standing
from changeledger.control.tables.base import Position
from changeledger.control.tables.feeds import ResetRow
from changeledger.control.tables.releases import ReleaseRow
from changeledger.control.tables.windows import StageRow, WindowRow
from changeledger.control.windows import advance, last_release, set_position
from changeledger.model.errors import StageOrderError
from changeledger.model.window import STAGES, Window

IN_ORDER = f"run the stages in order: {', '.join(STAGES)}"


class ReleaseSummary(NamedTuple):
    """How much a release has published, and how late (see `ReleaseRow`). `committed`: as JSON text."""

    created_at: datetime
    completed_at: datetime | None
    changes: int
    committed: str | None


class Releases(Part):
    def commit(
        self,
        feed: str,
        window: Window,
        tables: dict[str, int],
        counts: dict[str, Any],
        position: Position,
    ) -> int:
        """Commits a release: its row, contracts, position and the window's status, in one transaction.

        This is the commit point of a run. A second call for the window changes nothing and returns the id of
        the first. If a reset waits, the release ends it, and `position` may be before the known one.
        `counts`: counts by table and of the run; `committed` goes to a column of its own.
        Raises StageOrderError unless exactly these snapshots, built on the newest release, have passed the
        audit.
        """
        with self._writing(feed) as session:
            stored = session.get(WindowRow, (feed, window.id), with_for_update=True)
            if stored is None or not stored.released:
                _require_passed(session, feed, window.id, tables)
                reset = pending_reset(session, feed)
                release = ReleaseRow(
                    feed=feed,
                    id=next_id(session, feed),
                    window_id=window.id,
                    status="committed",
                    tables=tables,
                    **_figures(counts),
                    positions=position,
                    read_again=note_read_again(session, feed, window, everything=reset is not None),
                    created_at=now(),
                )
                session.add(release)
                _take(session, release, reset)
                session.get_one(WindowRow, (feed, window.id)).status = "released"
                return release.id
            return session.scalars(_of_window(feed, window.id).limit(1)).one().id

    def complete(self, feed: str, release_id: int) -> None:
        """Records that every table of the release is moved and tagged. A second call changes nothing."""
        with self._writing(feed) as session:
            release = session.get_one(ReleaseRow, (feed, release_id))
            if not release.completed:
                release.status = "completed"
                release.completed_at = now()

    def incomplete(self, feed: str) -> list[ReleaseRow]:
        """Returns the releases that were committed but whose tables are not all moved, the oldest first."""
        query = select(ReleaseRow).where(ReleaseRow.feed == feed, ReleaseRow.status == "committed")
        return self._all(query.order_by(ReleaseRow.id))

    def of_window(self, feed: str, window: Window) -> ReleaseRow | None:
        return self._first(_of_window(feed, window.id))

    def latest(self, feed: str) -> ReleaseRow | None:
        """Returns the release committed last, whatever its window; None if there is none."""
        query = select(ReleaseRow).where(ReleaseRow.feed == feed)
        return self._first(query.order_by(ReleaseRow.id.desc()))

    def latest_completed(self, feed: str) -> ReleaseRow | None:
        """Returns the last release whose tables are all moved and tagged; None if there is none."""
        query = select(ReleaseRow).where(ReleaseRow.feed == feed, ReleaseRow.status == "completed")
        return self._first(query.order_by(ReleaseRow.id.desc()))

    def after(self, feed: str, release_id: int) -> list[ReleaseRow]:
        """Returns the completed releases of runs after that one, as far as they stand, the oldest first."""
        rows = self.of_feed(feed)
        stand = standing(rows)
        later = (row for row in rows if row.id > release_id and row.id in stand)
        return [row for row in later if row.completed and not row.is_rollback]

    def of_feed(self, feed: str) -> list[ReleaseRow]:
        """Returns all releases of the feed, the oldest first."""
        return self._all(releases_of(feed))

    def since(self, feed: str, moment: datetime) -> list[ReleaseSummary]:
        """Returns summaries of the releases that runs have committed since the moment, the oldest first.

        It reads only small columns: a feed has thousands of releases in a year.
        """
        of = ReleaseRow
        columns = of.created_at, of.completed_at, of.changes, cast(of.committed, Text)
        query = select(*columns).where(of.feed == feed, of.created_at >= moment, of.rolled_back_to.is_(None))
        return [ReleaseSummary(*row) for row in self._rows(query.order_by(of.id))]

    def by_window(self, feed: str) -> dict[str, int]:
        """Returns the id of the newest release of each window."""
        query = select(ReleaseRow.window_id, func.max(ReleaseRow.id)).where(
            ReleaseRow.feed == feed, ReleaseRow.rolled_back_to.is_(None)
        )
        return dict(map(tuple, self._rows(query.group_by(ReleaseRow.window_id))))

    def heads(self, feed: str) -> list[ReleaseHead]:
        """Returns all releases of the feed in small columns, the oldest first: a year has thousands."""
        of = ReleaseRow
        columns = of.id, of.window_id, of.status, of.created_at, of.rolled_back_to, of.reason, of.by
        query = select(*columns).where(of.feed == feed).order_by(of.id)
        return [ReleaseHead(*row) for row in self._rows(query)]

    def counts(self, feed: str, ids: Iterable[int]) -> dict[int, dict[str, Any]]:
        """Returns the counts of these releases by id."""
        of = ReleaseRow
        query = select(of.id, of.counts).where(of.feed == feed, of.id.in_(list(ids)))
        return {row.id: row.counts for row in self._rows(query)}

    def before(self, feed: str, moment: datetime) -> list[ReleaseRow]:
        """Returns the releases committed before the moment, except the newest release of all."""
        return [row for row in self.of_feed(feed)[:-1] if row.created_at < moment]


def releases_of(feed: str) -> Select[ReleaseRow]:
    return select(ReleaseRow).where(ReleaseRow.feed == feed).order_by(ReleaseRow.id)


def next_id(session: Session, feed: str, in_lake: int = 0) -> int:
    """Returns the next release id. The lease's row is locked, so no other run of the feed commits meanwhile.

    `in_lake`: the newest release id in the lake, which may come from a lost control store.
    """
    return max(last_release(session, feed), in_lake) + 1


def _take(session: Session, release: ReleaseRow, reset: ResetRow | None) -> None:
    """Gives the feed the position and the contracts of the release, and ends the `reset` if one waited."""
    feed, window_id = release.feed, release.window_id
    if reset is None:
        advance(session, feed, window_id, release.positions)
    else:
        set_position(session, feed, window_id, release.positions)
        end_reset(reset, release.id)
        # Topics that were made again, a database restored: they are those that the reset has read.
        exchange_marks(session, release, marks_of_reset(session, feed, window_id))
    normalized = session.get(StageRow, (feed, window_id, "normalize"))
    for table, body in ((normalized and normalized.contracts) or {}).items():
        add_contract(session, release, table, body)


def _figures(counts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the columns of `ReleaseRow` for these counts."""
    by_table = counts.get("tables", {}).values()
    return {
        "changes": sum(sum(of_table.get("changes", {}).values()) for of_table in by_table),
        "committed": counts.get("committed"),
        "counts": {name: count for name, count in counts.items() if name != "committed"},
    }


def _of_window(feed: str, window_id: str) -> Select[ReleaseRow]:
    """Selects the window's releases that are no rollbacks, the newest first: earlier ones were taken back."""
    of = ReleaseRow
    query = select(of).where(of.feed == feed, of.window_id == window_id, of.rolled_back_to.is_(None))
    return query.order_by(of.id.desc())


def _require_passed(session: Session, feed: str, window_id: str, tables: dict[str, int]) -> None:
    stored = session.get(WindowRow, (feed, window_id))
    if stored is None:
        raise StageOrderError(f"the window {window_id} of the feed {feed!r} was never opened", IN_ORDER)
    if stored.built_on != last_release(session, feed):
        raise StageOrderError(*built_on_another(feed, window_id))
    judged = session.get(StageRow, (feed, window_id, "audit"))
    audits = session.scalars(audits_of(feed, window_id))
    failed = ", ".join(row.rule for row in audits if not row.success and row.detail["stops"])
    if judged is None or failed:
        raise StageOrderError(
            f"{feed}: the audit of the window {window_id} has not passed: {failed or 'it was not run'}",
            "run the audit, and look at its Data Docs if it fails",
        )
    others = sorted(t for t, snapshot in judged.tables.items() if tables.get(t) != snapshot)
    if others:
        raise StageOrderError(
            f"{feed}: the audit of the window {window_id} has checked other snapshots of {', '.join(others)}",
            "run the audit of the window again: in Airflow clear it with what follows it",
        )


def built_on_another(feed: str, window_id: str) -> tuple[str, str]:
    """Returns message and remedy for a window whose branches were not built on the present main."""
    return (
        f"{feed}: since the window {window_id} was built, another window was released or the tables were "
        "maintained: publishing it would undo that",
        "run it again from normalize: in Airflow clear normalize with what follows it",
    )
