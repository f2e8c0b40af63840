"""What follows a release's commit point: moving main of every table, and tagging it."""

from __future__ import annotations

from pyspark.sql import SparkSession

from changeledger.storage import lake
from changeledger.storage.control import ControlStore, ReleaseRow
from changeledger.window import branch_of


def release_tag(release_id: int) -> str:
    """Readers who need several tables as of one release read them by this tag."""
    return f"release_{release_id}"


def complete(spark: SparkSession, control: ControlStore, release: ReleaseRow) -> None:
    """Move and tag every table of a committed release. Each step may have been done already."""
    branch = branch_of(release.window_id)
    stages = [f"{stage}_{release.window_id}" for stage in ("normalize", "reconcile")]

    def move(table: str) -> None:
        lake.move_main(spark, table, branch, release.tables[table])
        lake.tag(spark, table, release_tag(release.id), release.tables[table])

    lake.each(move, release.tables)
    control.complete_release(release.id)
    lake.each(lambda table: lake.drop_run(spark, table, branch, stages), release.tables)


def complete_releases(spark: SparkSession, control: ControlStore, feed: str) -> None:
    """Finish what a crash between the commit point and the last table has left."""
    for release in control.incomplete_releases(feed):
        complete(spark, control, release)
