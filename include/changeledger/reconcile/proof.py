"""Is what a feed has published what its source holds? Rows of the source against versions of history.

The source is read while it goes on changing, without a lock. What was read of a key is its state at some
moment between two, the fence; so a row is right where it equals any version of its key that was alive at
some moment of the fence, and no row is right where the key did not live at some moment of it. Keys that
nobody touched since the fence began have one version there, the current row: for those, hashes of many rows
at once do. Only where these differ are single rows looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from changeledger.change import quoted
from changeledger.contract import Contract
from changeledger.reconcile.compare import Columns, hashes, key_hashes

EQUAL: Final = "equal"
# Right, of a key that was changed at the time of the fence or later.
IN_FLIGHT: Final = "in_flight"
# The source has the row, and what is published has not; or the other way round.
MISSING: Final = "missing"
SURPLUS: Final = "surplus"
# Both have it, with another value in a cell.
DIFFERS: Final = "differs"
DRIFTS: Final = (MISSING, SURPLUS, DIFFERS)

# Into so many buckets the rows of a table are hashed: what differs in one of them is looked for in so small
# a part of the table.
BUCKETS: Final = 4096

KEY: Final = ("key_1", "key_2")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Fence(NamedTuple):
    """Between which moments a source was read.

    All that was committed up to `since` is in what was read, and nothing that was committed after `until`.
    LSNs say the same by position, where the source tells its own; a change counts as committed meanwhile
    where either says so.
    """

    since: datetime
    until: datetime
    since_lsn: bytes | None = None
    until_lsn: bytes | None = None

    def is_behind(self) -> Column:
        """Does a version in history begin behind the beginning of the fence?"""
        return _later("_valid_from", self.since) | _beyond("_commit_lsn", self.since_lsn)

    def is_begun(self) -> Column:
        """May it have begun when the fence ended?"""
        in_time = ~_later("_valid_from", self.until)
        if self.until_lsn is None:
            return in_time
        return in_time | ~_beyond("_commit_lsn", self.until_lsn) & F.col("_commit_lsn").isNotNull()


def moment(at: datetime) -> Column:
    """As a count: a literal of a Python datetime would go by the machine's own zone."""
    return F.timestamp_micros(F.lit((at - _EPOCH) // timedelta(microseconds=1)))


def _later(name: str, at: datetime) -> Column:
    return F.col(name) > moment(at)


def _beyond(name: str, lsn: bytes | None) -> Column:
    return F.lit(False) if lsn is None else F.coalesce(F.col(name) > F.lit(lsn), F.lit(False))


class Published(NamedTuple):
    """One table of a feed, as one release has it."""

    current: DataFrame
    history: DataFrame
    contract: Contract


class Proof(NamedTuple):
    """What is to be compared: a snapshot of the source's table, and what a feed has published of it.

    `snapshot`: rows in the columns of a contract; `columns`: those that both have, the snapshot's first.
    """

    snapshot: DataFrame
    snapshot_contract: Contract
    published: Published
    columns: Columns
    fence: Fence

    @classmethod
    def of(cls, snapshot: DataFrame, contract: Contract, published: Published, fence: Fence) -> Proof:
        """Raises ContractError where the two do not agree on the table's key."""
        return cls(snapshot, contract, published, Columns.of(contract, published.contract), fence)

    def source(self, *more: Column) -> DataFrame:
        """`KEY`, `bucket` and `cells` (a hash a column) of the rows that were read, beside their `image`."""
        no_gaps = F.lit(None).cast("map<string,string>")
        rows = _images(self.snapshot, self.snapshot_contract, no_gaps, more)
        return _hashed(rows, self.columns, self.columns.names)

    def current(self, *more: Column) -> DataFrame:
        """The same of the current rows; a cell that is not known has no hash."""
        rows = _images(self.published.current, self.published.contract, F.col("_gaps"), more)
        return _hashed(rows, self.columns, self.columns.other)

    def history(self, *more: Column) -> DataFrame:
        """The same of the versions in history."""
        rows = _images(self.published.history, self.published.contract, F.col("_gaps"), more)
        return _hashed(rows, self.columns, self.columns.other)

    @property
    def _left_out(self) -> list[str]:
        return [name for name in self.published.contract.names if name not in self.columns.other]

    def apart(self) -> DataFrame:
        """`KEY` and `touched` of the keys that hashes of many rows cannot judge.

        Touched ones may have several versions at the fence; the others have cells that are not known.
        """
        touched = self.history(F.lit(True).alias("touched"), self.fence.is_behind().alias("is_behind"))
        # Of columns that are not compared nothing need be known.
        gaps = F.array_except(F.map_keys("_gaps"), F.array(*map(F.lit, self._left_out)).cast("array<string>"))
        unknown = self.current(F.lit(False).alias("touched"), (F.size(gaps) > 0).alias("has_gaps"))
        told = touched.where("is_behind").select(*KEY, "touched")
        told = told.unionByName(unknown.where("has_gaps").select(*KEY, "touched"))
        return told.groupBy(*KEY).agg(F.bool_or("touched").alias("touched"))


def _images(rows: DataFrame, contract: Contract, gaps: Column, more: Sequence[Column]) -> DataFrame:
    image = F.struct(*(F.col(quoted(name)).alias(name) for name in contract.names))
    return rows.select(image.alias("image"), gaps.alias("image_gaps"), *more)


def _hashed(rows: DataFrame, columns: Columns, names: Sequence[str]) -> DataFrame:
    keys = dict(zip(KEY, key_hashes("image", columns, names), strict=True))
    hashed = rows.withColumns({**keys, "cells": F.expr(hashes("image", columns, names))})
    return hashed.withColumn("bucket", F.pmod("key_1", F.lit(BUCKETS)).cast("int"))


def tried(proof: Proof) -> DataFrame:
    """One row: does the hash of each bucket agree?

    `rows` of the source, `equal` of them in buckets that agree, `buckets` that hold rows, `differing` ones
    (array<int>), and the number of keys that are `apart`, in none of them.
    """
    apart = proof.apart()
    # What is published counts against what the source has: of equal rows nothing is left.
    rows = proof.source(F.lit(1).alias("sign")).select(*KEY, "cells", "bucket", "sign")
    rows = rows.unionByName(proof.current(F.lit(-1).alias("sign")).select(*KEY, "cells", "bucket", "sign"))
    row = F.when(F.col("touched").isNull(), F.xxhash64(*KEY, "cells"))
    # Half of the bits: a sum of whole hashes would not fit.
    left = {"n": F.lit(1), "summed": F.shiftrightunsigned(row, 32)}
    summed = rows.join(apart, [*KEY], "left").groupBy("bucket").agg(
        F.count_if(F.col("sign") > 0).alias("rows"),
        F.count_if((F.col("sign") > 0) & row.isNotNull()).alias("ours"),
        F.count(row).alias("all"),
        F.coalesce(F.bit_xor(row), F.lit(0)).alias("folded"),
        *(F.coalesce(F.sum(F.when(row.isNotNull(), F.col("sign") * value)), F.lit(0)).alias(name)
          for name, value in left.items()),
    )  # fmt: skip
    differs = (F.col("n") != 0) | (F.col("folded") != 0) | (F.col("summed") != 0)
    found = summed.agg(
        F.coalesce(F.sum("rows"), F.lit(0)).alias("rows"),
        F.coalesce(F.sum(F.when(~differs, F.col("ours"))), F.lit(0)).alias("equal"),
        F.count_if(F.col("all") > 0).alias("buckets"),
        F.collect_list(F.when(differs, F.col("bucket"))).alias("differing"),
    )
    return found.crossJoin(apart.agg(F.count(F.lit(1)).alias("apart")))


def judged(proof: Proof, differing: Sequence[int]) -> DataFrame:
    """The keys of the `differing` buckets, and those apart, one by one.

    `KEY`, `verdict`, `touched`, `numbers` of the columns that differ, `unknown` (cells of a right row that
    are not known), and `change_id` of the version that it was compared with, if there is one.
    """
    apart = proof.apart()
    looked_at = F.col("bucket").isin(list(differing)) if differing else F.lit(False)
    rows = proof.source().join(apart, [*KEY], "left").where(looked_at | F.col("touched").isNotNull())
    source = rows.select(*KEY, F.col("cells").alias("source"))
    versions = _versions(proof, apart, looked_at)
    bad = F.expr(
        "CASE WHEN source IS NOT NULL AND alive THEN filter(sequence(0, size(source) - 1), "
        "n -> coalesce(source[n] != cells[n], false)) END"
    )
    both = source.join(versions, [*KEY], "full_outer").withColumn("bad", bad)
    live = F.col("right") & F.col("alive")
    is_equal = live & (F.size("bad") == 0)
    unknown = F.size(F.filter("cells", lambda cell: cell.isNull()))
    newest = F.struct("bad", "change_id")
    by_key = both.groupBy(*KEY).agg(
        F.bool_or(F.col("source").isNotNull()).alias("is_there"),
        _any(F.col("touched")).alias("touched"),
        _any(is_equal).alias("is_equal"),
        _any(F.col("alive").isNull() | (F.col("right") & ~F.col("alive")) | F.col("fresh")).alias("may_lack"),
        F.max_by(newest, F.when(live, F.col("_sort_key"))).alias("newest"),
        F.max(live).alias("lived"),
        F.min(F.when(is_equal, unknown)).alias("unknown"),
    )
    verdict = (
        F.when(F.col("is_equal"), F.when(F.col("touched"), F.lit(IN_FLIGHT)).otherwise(F.lit(EQUAL)))
        .when(F.col("is_there"), F.when(F.col("lived"), F.lit(DIFFERS)).otherwise(F.lit(MISSING)))
        .when(F.col("may_lack"), F.when(F.col("touched"), F.lit(IN_FLIGHT)).otherwise(F.lit(EQUAL)))
        .otherwise(F.lit(SURPLUS))
    )
    told = by_key.withColumn("verdict", verdict)
    return told.select(
        *KEY,
        "verdict",
        "touched",
        "is_there",
        F.when(F.col("verdict") == DIFFERS, F.col("newest")["bad"]).alias("numbers"),
        F.coalesce("unknown", F.lit(0)).alias("unknown"),
        F.when(F.col("lived"), F.col("newest")["change_id"]).alias("change_id"),
    )


def _any(condition: Column) -> Column:
    return F.coalesce(F.bool_or(condition), F.lit(False))


def _versions(proof: Proof, apart: DataFrame, looked_at: Column) -> DataFrame:
    """What a key may look like in what was read: `KEY`, `cells`, `alive`, and

    `right`: it was there at some moment of the fence. `fresh`: nothing was there before it, and it began
    behind the beginning of the fence: the key need not have lived yet.
    """
    history = proof.history(
        F.col("_change_id").alias("change_id"),
        *map(F.col, ("_sort_key", "_next_sort_key", "_is_deleted")),
        proof.fence.is_behind().alias("is_behind"),
        proof.fence.is_begun().alias("is_begun"),
    )
    of_touched = history.join(apart.where("touched"), [*KEY], "left_semi")
    in_order = Window.partitionBy(*KEY).orderBy("_sort_key", F.asc_nulls_last("_next_sort_key"))
    # It lasts at least until the next one begins.
    lasted = F.coalesce(F.lead("is_behind").over(in_order), F.lit(True))
    told = of_touched.withColumns(
        {
            "right": F.col("is_begun") & lasted,
            "fresh": F.lag("_sort_key").over(in_order).isNull() & F.col("is_behind"),
            "alive": ~F.col("_is_deleted"),
            "touched": F.lit(True),
        }
    ).where(F.col("right") | F.col("fresh"))
    current = proof.current(F.col("_change_id").alias("change_id"), F.col("_sort_key"))
    others = (
        current.join(apart, [*KEY], "left")
        .where(F.col("touched").isNull() & looked_at | (~F.col("touched")))
        .withColumns(
            {name: F.lit(name in {"right", "alive"}) for name in ("right", "alive", "fresh", "touched")}
        )
    )
    names = (*KEY, "cells", "alive", "right", "fresh", "touched", "change_id", "_sort_key")
    return told.select(*names).unionByName(others.select(*names))
