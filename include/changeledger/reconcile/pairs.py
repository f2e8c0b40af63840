"""Updates of a key whose halves came in two windows: the run's change replaces a published row."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def retold(published: DataFrame, changes: DataFrame) -> DataFrame:
    """Published halves of key updates that the run's `changes` tell as one, with the half that came now."""
    joined = changes.where(F.col("paired_change_id").isNotNull())
    halves = joined.select(F.explode(F.array("change_id", "paired_change_id")).alias("change_id"))
    return published.join(halves, "change_id", "left_semi")


def without_retold(published: DataFrame, changes: DataFrame) -> DataFrame:
    """What of the published ledger the run must keep."""
    return published.join(retold(published, changes).select("change_id"), "change_id", "left_anti")
