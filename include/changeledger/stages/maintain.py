"""Maintain: small files together, old snapshots and stray files away, never under a run's feet.

It holds the feed's lease. A branch that is built and not published stands on main as it is: compaction would
move main, and the branch could not be published any more, so a feed with such a window is not compacted.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from changeledger.config import Feed, Settings
from changeledger.stages.run import control_store, log
from changeledger.storage import lake
from changeledger.storage.control import LEASE_SECONDS, ControlStore, kept
from changeledger.storage.releases import complete_releases, release_tag

# A file of a write that goes on has no snapshot yet.
_STRAY_AFTER = timedelta(days=3)


def run(spark: SparkSession, feed: Feed, holder: str) -> None:
    """Raises LeaseHeld while a run of the feed is at work."""
    control = control_store(Settings())
    control.acquire_lease(feed.feed, holder, LEASE_SECONDS)
    try:
        with kept(control, feed.feed, holder):
            complete_releases(spark, control, feed.feed)
            _maintain(spark, feed, control)
    finally:
        control.release_lease(feed.feed, holder)


def _maintain(spark: SparkSession, feed: Feed, control: ControlStore) -> None:
    tables = lake.tables(spark, feed.namespace)
    oldest = datetime.now(UTC) - feed.keep
    tags = [release_tag(release.id) for release in control.releases_before(feed.feed, oldest)]
    building = [w.window_id for w in control.open_windows(feed.feed) if control.stands_on_main(w)]
    if building:
        log.warning("%s: not compacted: %s is built and not released", feed.feed, ", ".join(building))

    def maintain(table: str) -> None:
        if not building:
            lake.compact(spark, table)
        lake.drop_tags(spark, table, tags)
        lake.expire(spark, table, oldest)
        lake.remove_strays(spark, table, datetime.now(UTC) - _STRAY_AFTER)

    lake.each(maintain, tables)
    log.info("%s: %d tables maintained, %d releases older than %s", feed.feed, len(tables), len(tags), oldest)
