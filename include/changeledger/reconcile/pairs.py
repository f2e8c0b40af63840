"""Joining what belongs together: the two images of an update, and the two halves of a key update."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from changeledger import change, images
from changeledger.contract import Contract
from changeledger.plans import sealed


def join_images(decoded: DataFrame) -> DataFrame:
    """Give each `after` record the image of its `before` record, found by `pair_key`, not by adjacency.

    `decoded` holds one row per record with `part` (whole, before, after) and `pair_key`. The result holds
    the same rows, with `paired_record` on completed changes and the disposition settled: a before record
    is `paired`, or quarantined when nothing follows it in its complete window; an after record alone is
    legal, its before image unknown. Where the two have different keys, the row moved.

    A half that was delivered again is a duplicate of the first. Where halves of one kind differ, which of
    them belong together is not known: all of that `pair_key` are quarantined.
    """
    decoded = sealed(decoded)
    half = F.col("pair_key").isNotNull() & (F.col("disposition") == change.CHANGE)
    whole = decoded.where(~half).withColumn("paired_record", F.lit(None).cast(change.RECORD_TYPE))
    is_after, is_before = F.col("part") == "after", F.col("part") == "before"
    in_order = Window.partitionBy("pair_key").orderBy("part", "record")
    all_of_it = in_order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    said, old = F.col("said"), F.struct("key", "before", "before_gaps", "mask", "record")
    differs = F.lit(False)
    for part in (is_after, is_before):
        told = F.when(part, said)
        differs |= F.coalesce(F.min(told).over(all_of_it) != F.max(told).over(all_of_it), F.lit(False))
    halves = (
        decoded.where(half)
        .withColumn("said", F.xxhash64("before", "after", "mask"))
        .withColumns(
            {
                "partner": F.first(F.when(is_before, old), ignorenulls=True).over(all_of_it),
                "followed": F.bool_or(is_after).over(all_of_it),
                "again": F.coalesce(F.lag("part").over(in_order) == F.col("part"), F.lit(False)),
                "differs": differs,
            }
        )
        .withColumn("partner", F.when(is_after & ~F.col("differs"), F.col("partner")))
    )
    partner = F.col("partner")
    moved = ~partner["key"].eqNullSafe(F.col("key"))
    # A before record may have none, or no bit in it.
    disagree = (partner["mask"] != F.col("mask")) & (F.ltrim(partner["mask"], F.lit("0")) != "")
    flags = F.col("flags")
    for condition, flag in (
        (is_after & partner.isNull(), change.BEFORE_UNKNOWN),
        (partner.isNotNull() & moved, change.KEY_CHANGED),
        (disagree, change.MASK_DISAGREES),
    ):
        flags = F.when(condition, with_flag(flags, flag)).otherwise(flags)
    faults = (
        (
            F.col("differs"),
            change.QUARANTINED,
            "ambiguous_pair",
            "several before or after rows stand at one position, and no key tells which belong together",
        ),
        (F.col("again"), change.DUPLICATE, change.DELIVERED_AGAIN, None),
        (
            is_before & ~F.col("followed"),
            change.QUARANTINED,
            change.BEFORE_WITHOUT_AFTER,
            "the row of the new values is not in the complete window",
        ),
    )
    disposition = F.when(is_before, F.lit(change.PAIRED)).otherwise(F.col("disposition"))
    reason = detail = F.lit(None).cast("string")
    for condition, outcome, name, words in reversed(faults):
        disposition = F.when(condition, F.lit(outcome)).otherwise(disposition)
        reason = F.when(condition, F.lit(name)).otherwise(reason)
        detail = F.when(condition, F.lit(words)).otherwise(detail)
    settled = halves.withColumns(
        {
            "paired_record": partner["record"],
            "previous_key": F.when(partner.isNotNull() & moved, partner["key"]).otherwise(
                F.col("previous_key")
            ),
            "before": F.coalesce(partner["before"], F.col("before")),
            "before_gaps": F.coalesce(partner["before_gaps"], F.col("before_gaps")),
            "disposition": disposition,
            "reason": reason,
            "detail": detail,
            "flags": flags,
        }
    )
    return settled.drop("partner", "followed", "again", "differs", "said").unionByName(whole)


def with_flag(flags: Column, flag: str) -> Column:
    """`flags` with one more."""
    return F.array_union(F.coalesce(flags, F.array().cast("array<string>")), F.array(F.lit(flag)))


def halves_of_key_updates(new: DataFrame) -> DataFrame:
    """Pairs of a delete and an insert that tell one update of a key: `(deleted, inserted)` change ids.

    SQL Server tells it (and an update that mentions the key) as delete and insert at one position: the
    same commit and change LSN. A position with more than one of either is left as it is.
    """
    at = ["commit_lsn", "change_lsn"]
    halves = new.where(
        F.col("operation").isin(change.DELETE, change.INSERT) & F.col("change_lsn").isNotNull()
    ).select(*at, "operation", "change_id", "sort_key")
    deleted = halves.where(F.col("operation") == change.DELETE).select(
        *at, F.col("change_id").alias("deleted"), F.col("sort_key").alias("deleted_at")
    )
    inserted = halves.where(F.col("operation") == change.INSERT).select(
        *at, F.col("change_id").alias("inserted"), F.col("sort_key").alias("inserted_at")
    )
    joined = deleted.join(inserted, at, "inner").where(F.col("deleted_at") < F.col("inserted_at"))
    alone = joined.groupBy(*at).agg(
        F.count("*").alias("pairs"), F.min("deleted").alias("deleted"), F.min("inserted").alias("inserted")
    )
    return alone.where(F.col("pairs") == 1).select("deleted", "inserted")


def key_updates(new: DataFrame, halves: DataFrame, contract: Contract) -> DataFrame:
    """One ledger row for each pair: an update that stands where the insert stood, with the old key."""
    names = new.columns
    deleted = new.select(
        F.col("change_id").alias("deleted"),
        F.struct("key", "before", "before_gaps", "record", "change_id").alias("old"),
    )
    moved = (
        new.join(halves, new["change_id"] == halves["inserted"], "inner")
        .join(deleted, "deleted", "inner")
        .withColumns(
            {
                "operation": F.lit(change.UPDATE),
                "previous_key": F.when(~F.col("old")["key"].eqNullSafe(F.col("key")), F.col("old")["key"]),
                "before": F.col("old")["before"],
                "before_gaps": F.col("old")["before_gaps"],
                "paired_record": F.col("old")["record"],
                "paired_change_id": F.col("old")["change_id"],
            }
        )
    )
    before, after = (images.fields(side, contract) for side in ("before", "after"))
    different = images.differing(before, after, contract.names)
    changed = images.without_gaps(different, F.col("before_gaps"), F.col("after_gaps"))
    flags = F.when(
        F.col("previous_key").isNotNull(), with_flag(F.col("flags"), change.KEY_CHANGED)
    ).otherwise(F.col("flags"))
    return moved.withColumns({"changed": changed, "flags": flags}).select(*names)


def retold(published: DataFrame, changes: DataFrame) -> DataFrame:
    """Published halves of key updates that the run's `changes` tell as one, with the half that came now."""
    joined = changes.where(F.col("paired_change_id").isNotNull())
    halves = joined.select(F.explode(F.array("change_id", "paired_change_id")).alias("change_id"))
    return published.join(halves, "change_id", "left_semi")


def without_retold(published: DataFrame, changes: DataFrame) -> DataFrame:
    """What of the published ledger the run must keep."""
    return published.join(retold(published, changes).select("change_id"), "change_id", "left_anti")
