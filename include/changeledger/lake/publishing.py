"""The steps after a release's commit point: tag every table, update the table of releases, move main.

All tags are set before the table of releases (the pointer) names the release, and it names the release before
the first main moves. A reader who takes the newest release from there and reads by its tag therefore always
has all tables of one release. A reader of several mains may find some moved and others not yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa
from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession

from changeledger.control import LEASE_SECONDS, ControlStore, ReleaseRow
from changeledger.kernels.arrow import table_schema
from changeledger.lake import catalog, iceberg, new_tables, refs, same_releases
from changeledger.lake.conditions import is_equal
from changeledger.lake.parallel import parallel_map
from changeledger.lake.refs import release_tag
from changeledger.model.errors import ReleaseStuck
from changeledger.model.table_names import FeedTables
from changeledger.model.window import branch_of

# A feed's table of releases: one row per release, the newest last.
_POINTER = table_schema(
    [
        ("release", "bigint"),
        ("tag", "string"),
        ("window_start", "timestamp"),
        ("window_end", "timestamp"),
        ("released_at", "timestamp"),
    ]
)


def complete(
    session: Callable[[], SparkSession], control: ControlStore, release: ReleaseRow, *, force: bool = False
) -> None:
    """Tags and moves every table of a committed release. Each step may have been done already.

    Raises LeaseLost if another run works on the feed. Raises ReleaseStuck if somebody else has written a
    table's main meanwhile; with `force`, that main moves to the audited snapshot all the same, and its former
    snapshot keeps the tag `displaced_<id>`.
    """
    tag, tables = release_tag(release.id), release.tables
    parallel_map(lambda table: refs.set_tag(table, tag, tables[table]), tables)
    _point_to(control, release)
    tagged = catalog.look(tables)
    mains = refs.heads_in(tagged, refs.MAIN)
    behind = {table: snapshot for table, snapshot in tables.items() if mains.get(table) != snapshot}
    stuck = _foreign_of(control, release, behind, tagged)
    # After a pause, another run may have moved them. Then this process ends here, and nothing is stuck.
    control.leases.renew(release.feed, LEASE_SECONDS)
    if stuck and not force:
        raise _stuck(release, stuck)
    for table in stuck:
        refs.set_tag(table, f"displaced_{release.id}", mains[table])
        refs.set_branch(table, refs.MAIN, tables[table])
    moving = [table for table in behind if table not in stuck]
    try:
        _move(release, mains, moving)
    except refs.MainMoved as moved:
        raise _stuck(release, [moved.table]) from moved
    if not release.is_rollback:
        _take_off_replay_list(session, control, release)
    control.releases.complete(release.feed, release.id)
    done = {} if release.is_rollback else dict.fromkeys(moving)
    _drop_branches(release, {name: table for name, table in tagged.items() if name not in done})


def _foreign_of(
    control: ControlStore, release: ReleaseRow, behind: Mapping[str, int], tables: refs.Tables
) -> list[str]:
    """Returns those tables of `behind` whose main somebody else has written since the release was built."""
    if not release.is_rollback:
        return _moved(behind, tables)
    earlier = [row for row in control.releases.of_feed(release.feed) if row.id < release.id]
    return foreign(earlier, behind, refs.heads_in(tables, refs.MAIN))


def _move(release: ReleaseRow, mains: Mapping[str, int], tables: Iterable[str]) -> None:
    """Moves main of these tables to the release. Raises MainMoved if one is written meanwhile.

    The commit that moves main forward also drops the branches that the release was built on.
    """

    def move(table: str) -> None:
        if release.is_rollback:
            refs.move_back(table, release.tables[table], mains.get(table))
        else:
            refs.forward(table, release.tables[table], without=branch_of(release.window_id))

    parallel_map(move, tables)


def _drop_branches(release: ReleaseRow, tables: refs.Tables) -> None:
    """Drops the branches that the release was built on, of tables whose main did not move."""
    prefix = branch_of(release.window_id)
    built = {name: refs.names_in(table, refs.BRANCH, prefix) for name, table in tables.items()}
    parallel_map(lambda name: refs.drop(name, built[name]), [name for name in built if built[name]])


def complete_releases(session: Callable[[], SparkSession], control: ControlStore, feed: str) -> None:
    """Completes the feed's releases that a crash after their commit point left incomplete."""
    for release in control.releases.incomplete(feed):
        same_releases.require_snapshots(release)
        complete(session, control, release)


def require_mains(feed: str, tables: dict[str, int]) -> None:
    """Raises ReleaseStuck unless main of every table is what its snapshot was built on."""
    moved = _moved(tables, catalog.look(tables))
    if moved:
        raise ReleaseStuck(
            f"{feed}: since the run was built, somebody else has written main of {', '.join(sorted(moved))}",
            "nothing was released. Find out who writes there, then run the window again from normalize: in "
            "Airflow clear normalize with what follows it",
        )


def _moved(snapshots: Mapping[str, int], tables: refs.Tables) -> list[str]:
    """Returns the tables whose main is not what their snapshot was built on."""
    lineages, mains = refs.lineages(tables, snapshots), refs.heads_in(tables, refs.MAIN)
    return [name for name in snapshots if name in mains and mains[name] not in lineages[name]]


def foreign(earlier: Iterable[ReleaseRow], tables: Iterable[str], mains: Mapping[str, int]) -> list[str]:
    """Returns the tables whose main somebody else has written since the last of these releases that has them.

    Leaves out tables whose main is a release or what one was built on: there, a store was restored, or main
    was moved back.
    """
    known: dict[str, int] = {}
    for release in earlier:
        known.update(release.tables)
    return [
        table
        for table in tables
        if table in mains
        and not (table in known and refs.is_rewritten(table, known[table], mains[table]))
        and not refs.is_released(table, mains[table])
    ]


def _stuck(release: ReleaseRow, tables: list[str]) -> ReleaseStuck:
    return ReleaseStuck(
        f"{release.feed}: release {release.id} is committed, but somebody else wrote main of "
        f"{', '.join(sorted(tables))} before it could be moved",
        f"find out who writes there, then `changeledger release complete {release.feed} --force`: main "
        "becomes what was audited, and its previous state stays readable by the tag "
        f"displaced_{release.id}",
    )


def pointer_of(feed: str) -> Table:
    """Returns the feed's table of releases. Creates it if needed: a run calls this before it commits."""
    name = FeedTables.of(feed).releases
    pointer = catalog.find(name)
    if pointer is None:
        new_tables.create(name, _POINTER)
        pointer = catalog.load(name)
    return pointer


def _point_to(control: ControlStore, release: ReleaseRow) -> None:
    """Adds the release to the feed's table of releases, once."""
    is_own = is_equal("release", release.id)
    if pointer_of(release.feed).scan(is_own, ("release",)).count():
        return
    window = control.windows.row(release.feed, release.window_id)
    assert window is not None, "every release has a window"
    row = (release.id, release_tag(release.id), window.start, window.end, release.created_at)
    cells = [[cell] for cell in row]
    # If two tries write it at once, the second row replaces the first.
    pointer_of(release.feed).overwrite(pa.table(cells, schema=_POINTER), is_own)


def _take_off_replay_list(
    session: Callable[[], SparkSession], control: ControlStore, release: ReleaseRow
) -> None:
    """Removes the records that the run has replayed from the list; later requests stay."""
    window = control.windows.row(release.feed, release.window_id)
    if window is None or window.replay_snapshot is None:
        return
    listed = FeedTables.of(release.feed).replay_requests
    read: DataFrame = iceberg.read(session(), listed, snapshot=window.replay_snapshot)
    if not read.isEmpty():
        iceberg.delete_records(read, listed, "main")
