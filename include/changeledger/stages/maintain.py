"""Maintain: compact small files and remove what nobody needs any more, never while a run works.

It holds the feed's lease. A branch that is built and not published stands on main as it is: compaction would
move main, and the branch could not be published any more, so a feed with such a window is not compacted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import PROCESS_SECONDS, ControlStore, WindowRow, lease_held
from changeledger.lake import catalog, refs, upkeep
from changeledger.lake.parallel import parallel_map
from changeledger.lake.publishing import complete_releases
from changeledger.lake.refs import release_tag
from changeledger.model.change import literal
from changeledger.model.table_names import DRIFT, FINDINGS, REPAIRS
from changeledger.model.window import branch_of
from changeledger.pages import folders
from changeledger.stages.common.context import control_store, log
from changeledger.stages.maintenance.raw_rows import trim_raw

# A file of a write that goes on has no snapshot yet.
_STRAY_AFTER = timedelta(days=3)
# A statement has so many names.
_AT_ONCE = 500
# The clocks of the control store and of Spark may differ by this much.
_SKEW = timedelta(days=1)


def run(spark: SparkSession, feed: Feed, holder: str) -> None:
    """Raises LeaseHeld while a run of the feed is running."""
    settings = Settings()
    control = control_store(settings)
    with lease_held(control.leases, feed.feed, holder, PROCESS_SECONDS):
        complete_releases(lambda: spark, control, feed.feed)
        _maintain(spark, feed, control)
        _forget(spark, feed, control, settings)


def _maintain(spark: SparkSession, feed: Feed, control: ControlStore) -> None:
    tables = catalog.tables(feed.namespace)
    oldest = datetime.now(UTC) - feed.retention
    waiting = waited_for(feed, control)
    _drop_branches(feed, control, waiting, tables)
    tags = _drop_tags(spark, feed, control, oldest, tables)
    building = [window for window in waiting if control.windows.stands_on_main(window)]
    if building:
        names = ", ".join(window.window_id for window in building)
        log.warning("%s: not compacted: %s is built and not released", feed.feed, names)
    # Main can be moved to what was built while all snapshots between them are there; and a window reads the
    # list of what is to be replayed as it was when it was extracted.
    needed = [window for window in waiting if window in building or window.replay_snapshot is not None]
    unneeded = min([oldest, *(window.opened_at - _SKEW for window in needed)])
    newest = control.releases.latest(feed.feed)
    released = {} if newest is None else newest.tables

    def maintain(table: str) -> None:
        if not building:
            upkeep.compact(spark, table)
        # A rollback goes from main back to the release: in a hole somebody else may have written.
        since = refs.written_at(table, released[table]) if table in released else None
        upkeep.expire(spark, table, min(unneeded, since or unneeded))
        upkeep.remove_strays(spark, table, datetime.now(UTC) - _STRAY_AFTER)

    parallel_map(maintain, tables)
    log.info("%s: %d tables maintained, %d releases older than %s", feed.feed, len(tables), tags, oldest)


def waited_for(feed: Feed, control: ControlStore) -> list[WindowRow]:
    """Open windows that somebody may continue or look into: they can be published as they are, or no later
    window has released their time. One that is older than `docs_retention` is given up."""
    oldest, reached = datetime.now(UTC) - feed.docs_retention, control.windows.reached(feed.feed)
    return [
        window
        for window in control.windows.all_open(feed.feed)
        if window.opened_at >= oldest
        and (control.windows.stands_on_main(window) or not is_over(window, reached))
    ]


def is_over(window: WindowRow, reached: datetime | None) -> bool:
    """Has the feed what the window had to bring? A run that reads again brings nothing of its own."""
    is_released = reached is not None and window.end <= reached
    return window.done or window.request.reads_again or is_released


def _drop_branches(
    feed: Feed, control: ControlStore, waiting: Sequence[WindowRow], tables: Sequence[str]
) -> None:
    """Those of tries that were broken off, of dry runs, and of windows that were given up"""
    ids = {window.window_id for window in waiting}
    over = [w.window_id for w in control.windows.all_open(feed.feed) if w.window_id not in ids]
    control.upkeep.forget_built(feed.feed, over)
    needed = control.upkeep.branches_of(feed.feed, ids)
    drop = {
        table: [name for name in names if name not in needed]
        for table, names in refs.names(tables, refs.BRANCH, branch_of("")).items()
    }
    parallel_map(lambda table_refs: refs.drop(*table_refs), drop.items())
    count = len({name for names in drop.values() for name in names})
    log.info("%s: %d branches of runs removed, %d are waited for", feed.feed, count, len(needed))


def _drop_tags(
    spark: SparkSession, feed: Feed, control: ControlStore, oldest: datetime, tables: Sequence[str]
) -> int:
    """Those of releases that are older than `retention`; the table of releases names them no longer.

    The last release before a reset stays: its ledger may have what the source has no more.
    """
    kept = control.resets.replaced_releases(feed.feed)
    old = [row.id for row in control.releases.before(feed.feed, oldest) if row.id not in kept]
    names = {release_tag(number) for number in old} | {f"displaced_{number}" for number in old}
    drop = {
        table: [name for name in tags if name in names]
        for table, tags in refs.names(tables, refs.TAG).items()
    }
    pointer = feed.lake.releases
    if old and pointer in tables:
        stay = f" AND release NOT IN ({', '.join(map(str, sorted(kept)))})" if kept else ""
        upkeep.delete_where(spark, pointer, f"release <= {max(old)}{stay}")
    parallel_map(lambda table_refs: refs.drop(*table_refs), drop.items())
    return len({name for tags in drop.values() for name in tags})


def _forget(spark: SparkSession, feed: Feed, control: ControlStore, settings: Settings) -> None:
    """Raw rows, Data Docs and details in the control store that are older than the feed wants them.

    Not of windows whose records nobody has released.
    """
    now, waiting = datetime.now(UTC), {window.window_id for window in waited_for(feed, control)}
    newest, reached = control.releases.latest(feed.feed), control.windows.reached(feed.feed)
    if newest is not None:
        waiting.add(newest.window_id)

    def before(age: timedelta) -> list[str]:
        windows = control.upkeep.windows_before(feed.feed, now - age)
        return [w.window_id for w in windows if w.window_id not in waiting and is_over(w, reached)]

    runs = trim_raw(spark, feed, before(feed.raw_retention))
    old = before(feed.docs_retention)
    audited = settings.data_docs / feed.feed
    pages = [folder for folder in audited.iterdir() if folder.name in old] if audited.is_dir() else []
    for folder in pages:
        folders.remove(folder)
    control.upkeep.forget_details(feed.feed, old)
    if catalog.exists(feed.lake.applied_repairs):
        # The changes of these plans are in the ledger.
        _drop(spark, feed.lake.applied_repairs, "window_id", old)
    trim_results(spark, feed, control, now - feed.docs_retention)
    log.info("%s: raw rows of %d runs and Data Docs of %d removed", feed.feed, runs, len(pages))


def trim_results(spark: SparkSession, feed: Feed, control: ControlStore, before: datetime) -> None:
    """Comparisons, proofs and snapshots that are older: the last ones of each table stay."""
    old = control.upkeep.superseded(feed.database, feed.feed, before)
    results = (
        (FINDINGS, "comparison_id", old.comparisons),
        (DRIFT, "proof_id", old.proofs),
        (REPAIRS, "proof_id", old.proofs),
    )
    for table, column, ids in results:
        if catalog.exists(table):
            _drop(spark, table, column, ids)
            upkeep.expire(spark, table, before)
    control.upkeep.forget_results(old)
    log.info("%s: %d old comparisons and %d proofs removed", feed.feed, len(old.comparisons), len(old.proofs))


def _drop(spark: SparkSession, table: str, column: str, ids: Sequence[str]) -> None:
    """Rows of whole partitions."""
    for first in range(0, len(ids), _AT_ONCE):
        names = ", ".join(map(literal, ids[first : first + _AT_ONCE]))
        upkeep.delete_where(spark, table, f"{column} IN ({names})")
