"""Rollback: takes all tables of a feed back to an earlier release, by a new release of its snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from changeledger.config.feed import Feed
from changeledger.control import Asked, ReleaseRow, standing
from changeledger.lake import catalog, iceberg, refs, same_releases
from changeledger.lake.parallel import parallel_map
from changeledger.lake.publishing import complete, complete_releases, foreign
from changeledger.lake.refs import release_tag
from changeledger.model.errors import ConfigError, ReleaseStuck
from changeledger.model.window import branch_of
from changeledger.stages.common.context import log
from changeledger.stages.maintenance.releasing import Session, by_hand


def roll_back(session: Session, feed: Feed, target: int, asked: Asked) -> ReleaseRow:
    """Rolls the feed back to the release `target`. Returns the rollback, which is the feed's newest release.

    Called again after a crash, it completes the rollback instead of repeating it. A table that the feed did
    not list at the time of the target goes back to the last release before it that has the table. Spark is
    needed only to empty tables that came after the target, and to finish some releases after a crash.

    Raises ConfigError if the feed cannot go back to the release; LeaseHeld while a run of the feed works;
    ReleaseStuck if somebody else has written a published table.
    """
    name = feed.feed
    with by_hand(feed) as control:
        complete_releases(session, control, name)
        releases = control.releases.of_feed(name)
        to = _find(releases, name, target)
        newest = releases[-1]
        if newest.rolled_back_to != target or not _is_main(newest):
            published = _published(feed, newest)
            tables = _snapshots(session, releases, to, published)
            in_lake = same_releases.newest_tagged(published)
            newest = control.rollbacks.commit(name, target, tables, asked, in_lake)
            log.info("%s: release %d makes release %d main again", name, newest.id, target)
            complete(session, control, newest)
    return newest


def _find(releases: Iterable[ReleaseRow], feed: str, target: int) -> ReleaseRow:
    """Returns the release. Raises ConfigError if it does not exist, is main already, or cannot be read."""
    rows, remedy = {row.id: row for row in releases}, f"`changeledger releases {feed}` lists them"
    if target not in rows:
        raise ConfigError(f"the feed {feed!r} has no release {target}", remedy)
    if target == max(rows) and _is_main(rows[target]):
        raise ConfigError(f"{feed}: release {target} is the newest: nothing would be taken back", remedy)
    _require_tagged(rows[target], rows[target].tables)
    return rows[target]


def _require_tagged(release: ReleaseRow, tables: Iterable[str]) -> None:
    """Raises ConfigError if the release's snapshots of these tables can no longer be read."""
    tag = release_tag(release.id)
    tags = refs.heads(tables, tag)
    gone = sorted(table for table in tables if tags.get(table) != release.tables[table])
    if gone:
        raise ConfigError(
            f"{release.feed}: release {release.id} can no longer be read: the tag {tag} is gone from "
            f"{', '.join(gone)}. Maintenance removes releases older than `retention`; erasing a person "
            "removes all but the newest",
            f"`changeledger releases {release.feed}` lists them",
        )


def _is_main(release: ReleaseRow) -> bool:
    """Returns whether main of each table has what the release has. After a restored store it may not."""
    mains = refs.heads(release.tables, refs.MAIN)
    return all(
        table in mains and refs.is_rewritten(table, snapshot, mains[table])
        for table, snapshot in release.tables.items()
    )


def _published(feed: Feed, newest: ReleaseRow) -> list[str]:
    """Returns the feed's tables in the newest release, or in a later one that only the lake still knows."""
    return [
        table
        for table in catalog.tables(feed.namespace)
        if table in newest.tables or same_releases.newest_tagged([table]) > newest.id
    ]


def _snapshots(
    session: Session, releases: list[ReleaseRow], to: ReleaseRow, published: Iterable[str]
) -> dict[str, int]:
    """Returns the new main snapshot of each table. Raises ReleaseStuck if somebody else has written one."""
    newest = releases[-1]
    later = [table for table in published if table not in to.tables]
    tables = [*to.tables, *later]
    written = foreign(releases, tables, refs.heads(tables, refs.MAIN))
    if written:
        raise ReleaseStuck(
            f"{to.feed}: since release {newest.id} somebody else has written main of "
            f"{', '.join(sorted(written))}",
            "nothing was taken back. If `changeledger erase` was killed, run it again. Otherwise find "
            "out who writes there, and undo it: CALL lake.system.rollback_to_snapshot('<table>', "
            f"<snapshot of the tag {release_tag(newest.id)}>)",
        )
    left_out = _left_out(releases, to, later)
    came_later = [table for table in later if table not in left_out]
    return {**to.tables, **left_out, **_emptied(session, came_later, f"{branch_of(to.window_id)}_rollback")}


def _left_out(releases: Iterable[ReleaseRow], to: ReleaseRow, tables: Iterable[str]) -> dict[str, int]:
    """Returns the snapshots, as of the release `to`, of tables that the feed did not list then.

    These are of the last release before it that has the table. Raises ConfigError if such a snapshot can no
    longer be read.
    """
    stand = standing(releases, to.id)
    last = {table: row for row in releases if row.id in stand for table in tables if table in row.tables}
    for table, row in last.items():
        _require_tagged(row, [table])
    return {table: row.tables[table] for table, row in last.items()}


def _emptied(session: Session, tables: Sequence[str], branch: str) -> Mapping[str, int]:
    """Writes snapshots without rows for tables that came after the release."""
    if not tables:
        return {}
    spark = session()

    def empty(table: str) -> None:
        iceberg.fresh_branch(spark, table, branch)
        iceberg.replace(iceberg.read(spark, table).limit(0), table, branch)

    parallel_map(empty, tables)
    return refs.heads(tables, branch)
