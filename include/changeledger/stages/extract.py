"""Extract: the window's records, as received, into raw tables.

The window is resolved once into positions of the source, and stored: a retry reads the same records and
writes the same partition, so it adds nothing. It begins where the last release ended, or earlier, when
it is a window of the past that is run again.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from changeledger.config import Feed, Window
from changeledger.dialects.base import MessageDialect
from changeledger.stages.extract_messages import extract_messages
from changeledger.stages.extract_tables import extract_tables
from changeledger.stages.run import Run
from changeledger.storage.releases import complete_releases


def run(spark: SparkSession, feed: Feed, window: Window) -> None:
    """Raises GapError where records behind the last release are gone, SourceUnavailable, LeaseHeld."""
    this = Run.begin(spark, feed, window)
    if this is None:
        return
    complete_releases(spark, this.control, feed.feed)
    if isinstance(this.dialect, MessageDialect):
        extract_messages(this)
    else:
        extract_tables(this)
