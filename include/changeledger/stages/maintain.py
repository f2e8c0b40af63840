"""Maintain: compacts small files and removes what is no longer needed, never while a run works.

It holds the feed's lease. A branch that is built but not published descends from main as it is now.
Compaction would move main, and the branch could then not be published, so a feed with such a window is not
compacted.
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

# Age at which a file without a snapshot counts as stray: files of a write in progress have none yet.
_STRAY_AFTER = timedelta(days=3)
# Ids in one DELETE statement.
_AT_ONCE = 500
# Tolerated difference between the clocks of the control store and of Spark.
_SKEW = timedelta(days=1)


def run(spark: SparkSession, feed: Feed, holder: str) -> None:
    """Maintains the feed's tables. Raises LeaseHeld while a run of the feed is running."""
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
        log.warning("%s: not compacted: %s is built but not released", feed.feed, names)
    # Publishing moves main to the built snapshot, which needs all snapshots in between. A window with a
    # pinned replay list needs the snapshot that it pinned when it was extracted.
    needed = [window for window in waiting if window in building or window.replay_snapshot is not None]
    unneeded = min([oldest, *(window.opened_at - _SKEW for window in needed)])
    newest = control.releases.latest(feed.feed)
    released = {} if newest is None else newest.tables

    def maintain(table: str) -> None:
        if not building:
            upkeep.compact(spark, table)
        # A rollback walks from main back to the release; a missing snapshot could hide somebody else's write.
        since = refs.written_at(table, released[table]) if table in released else None
        upkeep.expire(spark, table, min(unneeded, since or unneeded))
        upkeep.remove_strays(spark, table, datetime.now(UTC) - _STRAY_AFTER)

    parallel_map(maintain, tables)
    log.info("%s: %d tables maintained, %d releases older than %s", feed.feed, len(tables), tags, oldest)


def waited_for(feed: Feed, control: ControlStore) -> list[WindowRow]:
    """Returns the open windows that somebody may still continue or look into.

    Such a window can be published as it is, or no later window has released its time. A window older than
    `docs_retention` is given up.
    """
    oldest, reached = datetime.now(UTC) - feed.docs_retention, control.windows.reached(feed.feed)
    return [
        window
        for window in control.windows.all_open(feed.feed)
        if window.opened_at >= oldest
        and (control.windows.stands_on_main(window) or not is_finished(window, reached))
    ]


def is_finished(window: WindowRow, reached: datetime | None) -> bool:
    """Returns whether the feed needs nothing more of the window.

    That is so if it is done, its time is released, or it reads again, which brings no new records.
    """
    is_released = reached is not None and window.end <= reached
    return window.done or window.request.reads_again or is_released


def _drop_branches(
    feed: Feed, control: ControlStore, waiting: Sequence[WindowRow], tables: Sequence[str]
) -> None:
    """Drops the branches of interrupted tries, of dry runs and of windows that were given up."""
    ids = {window.window_id for window in waiting}
    over = [w.window_id for w in control.windows.all_open(feed.feed) if w.window_id not in ids]
    control.upkeep.forget_built(feed.feed, over)
    needed, prefix = control.upkeep.branches_of(feed.feed, ids), branch_of("")
    count = refs.drop_named(tables, refs.BRANCH, lambda name: name.startswith(prefix) and name not in needed)
    log.info("%s: %d branches of runs removed, %d still needed", feed.feed, count, len(needed))


def _drop_tags(
    spark: SparkSession, feed: Feed, control: ControlStore, oldest: datetime, tables: Sequence[str]
) -> int:
    """Drops the tags of releases older than `retention`, and their rows in the table of releases.

    The last release before a reset stays: its ledger may have records that the source no longer has.
    Returns how many tags were dropped.
    """
    kept = control.resets.replaced_releases(feed.feed)
    old = [row.id for row in control.releases.before(feed.feed, oldest) if row.id not in kept]
    names = {release_tag(number) for number in old} | {f"displaced_{number}" for number in old}
    pointer = feed.lake.releases
    if old and pointer in tables:
        stay = f" AND release NOT IN ({', '.join(map(str, sorted(kept)))})" if kept else ""
        upkeep.delete_where(spark, pointer, f"release <= {max(old)}{stay}")
    return refs.drop_named(tables, refs.TAG, names.__contains__)


def _forget(spark: SparkSession, feed: Feed, control: ControlStore, settings: Settings) -> None:
    """Removes raw rows, Data Docs and control store details that are older than the feed's settings allow.

    Keeps those of windows whose records are not released, and of the newest release.
    """
    now, waiting = datetime.now(UTC), {window.window_id for window in waited_for(feed, control)}
    newest, reached = control.releases.latest(feed.feed), control.windows.reached(feed.feed)
    if newest is not None:
        waiting.add(newest.window_id)

    def before(age: timedelta) -> list[str]:
        windows = control.upkeep.windows_before(feed.feed, now - age)
        return [w.window_id for w in windows if w.window_id not in waiting and is_finished(w, reached)]

    runs = trim_raw(spark, feed, before(feed.raw_retention))
    old = before(feed.docs_retention)
    audited = settings.data_docs / feed.feed
    pages = [folder for folder in audited.iterdir() if folder.name in old] if audited.is_dir() else []
    for folder in pages:
        folders.remove(folder)
    control.upkeep.forget_details(feed.feed, old)
    if catalog.exists(feed.lake.applied_repairs):
        # The ledger has the changes of these repairs.
        _drop(spark, feed.lake.applied_repairs, "window_id", old)
    trim_results(spark, feed, control, now - feed.docs_retention)
    log.info("%s: raw rows of %d runs and Data Docs of %d removed", feed.feed, runs, len(pages))


def trim_results(spark: SparkSession, feed: Feed, control: ControlStore, before: datetime) -> None:
    """Removes older comparisons, proofs and snapshots, but keeps the last ones of each table."""
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
    """Deletes the rows of these ids, which fill whole partitions."""
    for first in range(0, len(ids), _AT_ONCE):
        names = ", ".join(map(literal, ids[first : first + _AT_ONCE]))
        upkeep.delete_where(spark, table, f"{column} IN ({names})")
