"""Checks that the control store and the lake know the same releases.

One of them may have been lost, or restored to an earlier time. A run would then leave out what lies between
the two times, or build it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from changeledger.control import ControlStore, ReleaseRow
from changeledger.lake import catalog, refs
from changeledger.lake.parallel import parallel_map
from changeledger.model.errors import StoresDisagree
from changeledger.model.table_names import FeedTables

_BACKUP: Final = "docs/backup.md"


class TableReleases(NamedTuple):
    """What a lake table knows of a release. `tagged`: the ids of all releases that it has a tag of."""

    is_there: bool
    tagged: frozenset[int]
    # The snapshot of the release's tag.
    snapshot: int | None
    # Whether main is an ancestor of the release's snapshot.
    is_behind: bool

    @property
    def newest(self) -> int:
        """The newest of `tagged`; 0 if there is none."""
        return max(self.tagged, default=0)


def require_newest(control: ControlStore, feed: str) -> None:
    """Raises StoresDisagree if a table's newest release is not that of the control store.

    Checks a single table, with one look at the catalog, before a run does anything.
    """
    newest, completed = control.releases.latest(feed), control.releases.latest_completed(feed)
    if newest is None:
        # The table is created, without a snapshot, before the commit point of the first release. A crash in
        # between leaves it empty.
        if refs.snapshot_of(FeedTables.of(feed).releases) is not None:
            raise StoresDisagree(
                f"{feed}: the control store knows no release, but the lake has some: the control store was "
                "lost, or CHANGELEDGER_CONTROL_URL names another one",
                f"restore the control store ({_BACKUP}, 'The control store is lost')",
            )
    elif completed is not None:
        # Prefer a table that every run writes.
        written = FeedTables.of(feed).dispositions
        table = written if written in completed.tables else min(completed.tables, default=None)
        _require(control, completed, newest.id, [] if table is None else [table])


def require_release(control: ControlStore, feed: str, tables: Iterable[str]) -> None:
    """Raises StoresDisagree unless all these tables have the last release. Checked before a run builds."""
    newest, completed = control.releases.latest(feed), control.releases.latest_completed(feed)
    if newest is not None and completed is not None:
        _require(control, completed, newest.id, sorted(set(tables) & completed.tables.keys()))


def require_snapshots(release: ReleaseRow) -> None:
    """Raises StoresDisagree if the lake lacks snapshots of a release that is committed but not completed."""
    known = catalog.look(release.tables)
    lost = [
        table
        for table, snapshot in release.tables.items()
        if table not in known or known[table].metadata.snapshot_by_id(snapshot) is None
    ]
    if lost:
        raise StoresDisagree(
            f"{release.feed}: release {release.id} is committed, but the lake lacks what it would "
            f"publish of {', '.join(sorted(lost))}: an older lake was restored, or the catalog was lost",
            f"restore both as of one time ({_BACKUP})",
        )


def newest_tagged(tables: Iterable[str]) -> int:
    """Returns the newest release id that one of the tables has a tag of; 0 if there is none."""
    names = refs.names(tables, refs.TAG).values()
    return max((number for of_table in names for number in refs.releases_of(of_table)), default=0)


def _require(control: ControlStore, completed: ReleaseRow, newest: int, tables: Sequence[str]) -> None:
    def stored() -> set[int]:
        return {release.id for release in control.releases.of_feed(completed.feed)}

    looks = parallel_map(partial(_look, completed), tables)
    said = disagreement(completed, newest, dict(zip(tables, looks, strict=True)), stored)
    if said is not None:
        raise StoresDisagree(*said)


def disagreement(
    completed: ReleaseRow,
    newest: int,
    tables: Mapping[str, TableReleases],
    stored: Callable[[], Collection[int]],
) -> tuple[str, str] | None:
    """Returns the message and remedy of a disagreement, or None if there is none.

    `completed`: the last completed release. `newest`: the last release id of the control store.
    `stored`: returns all release ids of the control store, which may have lost some in a restore.
    """
    feed = completed.feed
    gone = [table for table, known in tables.items() if not known.is_there]
    if gone:
        return (
            f"{feed}: the lake has no table {', '.join(gone)}, which release {completed.id} has "
            "published: its catalog was lost or replaced, or the table was dropped",
            f"restore the catalog, or register the tables' files again ({_BACKUP}, 'The catalog is lost')",
        )
    ahead = max((known.newest for known in tables.values()), default=0)
    if ahead > newest:
        return (
            f"{feed}: the lake has release {ahead}, but the control store ends at {newest}: an older "
            "control store was restored, or CHANGELEDGER_CONTROL_URL names another one",
            f"restore both as of one time; or go back to what both have: {_rollback(feed, newest)}",
        )
    others = [table for table, known in tables.items() if known.snapshot != completed.tables[table]]
    if others:
        return _is_older(completed, others, tables, stored())
    behind = [table for table, known in tables.items() if known.is_behind]
    if behind:
        return (
            f"{feed}: main of {', '.join(behind)} was moved back behind release {completed.id}",
            f"move it forward again: {_rollback(feed, completed.id)}",
        )
    return None


def _is_older(
    completed: ReleaseRow, others: Sequence[str], tables: Mapping[str, TableReleases], stored: Collection[int]
) -> tuple[str, str]:
    have = sorted({tables[table].newest for table in others})
    in_both = set(stored).intersection(*(known.tagged for known in tables.values()))
    remedy = f"; or go back to what both have: {_rollback(completed.feed, max(in_both))}" if in_both else None
    return (
        f"{completed.feed}: release {completed.id} is not in the lake as it was published: "
        f"{', '.join(others)} {'ends' if len(others) == 1 else 'end'} at release "
        f"{', '.join(map(str, have))}, or the tag was moved: an older lake was restored",
        f"restore both as of one time{remedy or f' ({_BACKUP})'}",
    )


def _rollback(feed: str, number: int) -> str:
    return f"`changeledger rollback {feed} {number} --reason ...` ({_BACKUP})"


def _look(release: ReleaseRow, table: str) -> TableReleases:
    known = catalog.find(table)
    if known is None:
        return TableReleases(is_there=False, tagged=frozenset(), snapshot=None, is_behind=False)
    named = {name: ref.snapshot_id for name, ref in known.metadata.refs.items()}
    published, main = release.tables[table], named.get(refs.MAIN)
    return TableReleases(
        is_there=True,
        tagged=frozenset(refs.releases_of(named)),
        snapshot=named.get(refs.release_tag(release.id)),
        is_behind=main is not None and refs.is_built_on(known, published, main),
    )
