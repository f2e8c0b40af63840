"""History (SCD type 2): one interval per change and key, from the ordered changes of the keys touched.

An update of a key ends the old key's row and begins the new key's: it has one effect on each. A truncate
names no key: it has an effect on each key that was alive at its position. A row of a snapshot that shows
what is known of its key has none.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from changeledger import change
from changeledger.change import history_columns, quoted
from changeledger.contract import Contract
from changeledger.reconcile import chain, moves

_MAP = "map<string,string>"


class Kinds(NamedTuple):
    """What is among effects: each costs intervals a step that most windows do not need."""

    gaps: bool = True
    moves: bool = True
    snapshots: bool = True

    @classmethod
    def of(cls, touched: DataFrame) -> Kinds:
        found = touched.agg(
            F.bool_or(F.col("gaps").isNotNull()),
            F.bool_or(moves.leaves()),
            F.bool_or(F.col("operation") == change.SNAPSHOT),
        )
        return cls(*map(bool, found.collect()[0]))


def effects(changes: DataFrame, contract: Contract) -> DataFrame:
    """What each change does to each key: `key`, `image`, `gaps`, `deleted`, the row that an update found
    of its key found (`before`, `before_gaps`), position.

    A row for every change of a row, and one more for the old key of a change that moved one. `intervals`
    adds what truncates do.
    """
    changes = changes.where(F.col("operation") != change.TRUNCATE)
    position = _position()
    deletes = F.col("operation") == change.DELETE
    # A delete, and what an update does to the old key, show the row that they found as their image.
    stays = (F.col("operation") == change.UPDATE) & F.col("previous_key").isNull()
    own = changes.select(
        F.col("key"),
        F.col("previous_key"),
        F.when(deletes, F.col("before")).otherwise(F.col("after")).alias("image"),
        F.when(deletes, F.col("before_gaps")).otherwise(F.col("after_gaps")).alias("gaps"),
        deletes.alias("deleted"),
        *(F.when(stays, F.col(name)).alias(name) for name in ("before", "before_gaps")),
        F.lit(None).cast(change.BREAK_TYPE).alias("break"),
        F.lit(False).alias("is_seed"),
        *position,
    )
    left = changes.where(F.col("previous_key").isNotNull()).select(
        F.col("previous_key").alias("key"),
        F.lit(None).cast(change.key_type(contract)).alias("previous_key"),
        F.col("before").alias("image"),
        F.col("before_gaps").alias("gaps"),
        F.lit(True).alias("deleted"),
        *_no_before(contract),
        *position,
    )
    return own.unionByName(left)


def _position() -> list[Column]:
    """Of a ledger's rows: who changed, and when."""
    common = {
        "change_id": F.col("change_id"),
        "sort_key": F.col("sort_key"),
        "commit_lsn": F.col("commit_lsn"),
        "committed_at": F.col("committed_at"),
        "operation": F.col("operation"),
        # All changes of a transaction have its commit time.
        "transaction": F.coalesce(
            F.nullif("transaction_id", F.lit("")), F.col("committed_at").cast("string")
        ),
        "delivery": F.struct(
            F.col("record")["partition"].alias("partition"), F.col("record")["offset"].alias("offset")
        ),
    }
    return [column.alias(name) for name, column in common.items()]


def truncates(ledger: DataFrame) -> DataFrame:
    """Position and id of each time that the table was emptied."""
    return ledger.where(F.col("operation") == change.TRUNCATE).select(*_position())


def alive_at(published: DataFrame, emptyings: DataFrame, contract: Contract) -> DataFrame:
    """`(key, is_open)` of the keys that a truncate ends, by the intervals of the published history.

    `is_open`: the interval is the key's last one. A key whose later intervals are known already comes with
    False: its history is no continuation.
    """
    at = emptyings.select(F.col("sort_key").alias("emptied_at"))
    spans = (F.col("_sort_key") < F.col("emptied_at")) & (
        F.col("_next_sort_key").isNull() | (F.col("_next_sort_key") > F.col("emptied_at"))
    )
    ended = published.where(~F.col("_is_deleted")).join(F.broadcast(at), spans, "left_semi")
    return ended.select(_key_of(contract), F.col("_valid_to").isNull().alias("is_open"))


def _emptied(touched: DataFrame, emptyings: DataFrame, contract: Contract) -> DataFrame:
    """`touched` with what `emptyings` do to its keys, whenever they were told. The rows go with their last
    known cells."""
    first = touched.groupBy("key").agg(F.min("sort_key").alias("first"))
    others = [c.name for c in contract.columns if not c.key_position]
    unknown = [F.lit(x) for name in others for x in (name, change.UNAVAILABLE)]
    ends = emptyings.join(first, F.col("first") < F.col("sort_key"), "inner").select(
        F.col("key"),
        F.lit(None).cast(change.key_type(contract)).alias("previous_key"),
        F.lit(None).cast(change.image_type(contract)).alias("image"),
        (F.create_map(*unknown) if unknown else F.lit(None)).cast(_MAP).alias("gaps"),
        F.lit(True).alias("deleted"),
        *_no_before(contract),
        *emptyings.columns,
    )
    return touched.unionByName(ends)


def _without_vain(effects: DataFrame) -> DataFrame:
    """Without truncates that have found no row of their key."""
    was_gone = F.coalesce(F.lag("deleted").over(_in_order()), F.lit(False))
    in_vain = (F.col("operation") == change.TRUNCATE) & was_gone
    return effects.withColumn("in_vain", in_vain).where(~F.col("in_vain")).drop("in_vain")


def _without_repeats(effects: DataFrame) -> DataFrame:
    """Without rows of snapshots that show what is known already. Gaps are filled: what is left is known."""
    last = F.lag(F.struct("image", "gaps", "deleted")).over(_in_order())
    known = [F.coalesce(F.size(gaps), F.lit(0)) for gaps in (F.col("gaps"), F.col("last")["gaps"])]
    same = F.col("image").eqNullSafe(F.col("last")["image"]) & (known[0] == known[1])
    is_repeat = (F.col("operation") == change.SNAPSHOT) & ~F.col("last")["deleted"] & same
    return effects.withColumn("last", last).where(~F.coalesce(is_repeat, F.lit(False))).drop("last")


def _in_order() -> WindowSpec:
    return Window.partitionBy("key").orderBy("sort_key", "delivery")


def firsts(new: DataFrame) -> DataFrame:
    """`first`, the lowest sort key of each key in `new` (from `effects`), and when that effect was committed
    if it takes the row to another key."""
    begins = F.min_by(F.when(moves.leaves(), F.col("committed_at")), F.struct("sort_key", "delivery"))
    return new.groupBy("key").agg(F.min("sort_key").alias("first"), begins.alias("left_at"))


def is_rebuilt() -> Column:
    """Of a seed with the `firsts` of its key: is what comes now no continuation of it?

    It is older; or the row leaves the key in the transaction in which it arrived, of which a window's end
    has parted the two: which row it is can then be told of all of the key's changes alone (`moves`).
    """
    was_there = F.coalesce(F.col("break")["kind"] == chain.ROW_WAS_THERE, F.lit(False))
    parted = moves.arrives() & ((F.col("committed_at") >= F.col("left_at")) | was_there)
    return (F.col("first") < F.col("sort_key")) | (F.col("left_at").isNotNull() & parted)


def seeds(open_intervals: DataFrame, contract: Contract) -> DataFrame:
    """The open intervals of history as effects, so that newer changes continue from them."""
    return open_intervals.select(
        _key_of(contract),
        F.col("_previous_key").alias("previous_key"),
        F.struct(*(F.col(quoted(c.name)).alias(c.name) for c in contract.columns)).alias("image"),
        F.col("_gaps").alias("gaps"),
        F.col("_is_deleted").alias("deleted"),
        *_no_before(contract, F.col("_break"), is_seed=True),
        F.col("_change_id").alias("change_id"),
        F.col("_sort_key").alias("sort_key"),
        F.col("_commit_lsn").alias("commit_lsn"),
        # Not the commit time itself: an interval begins no earlier than the one before it.
        F.col("_valid_from").alias("committed_at"),
        F.col("_operation").alias("operation"),
        F.lit(None).cast("string").alias("transaction"),
        # At one position the row that is there already came first.
        F.struct(
            F.lit(None).cast("int").alias("partition"), F.lit(None).cast("bigint").alias("offset")
        ).alias("delivery"),
    )


def _no_before(contract: Contract, found: Column | None = None, is_seed: bool = False) -> list[Column]:
    """Of an effect that has no row before it to be compared with, or was judged already."""
    return [
        F.lit(None).cast(change.image_type(contract)).alias("before"),
        F.lit(None).cast(_MAP).alias("before_gaps"),
        (F.lit(None).cast(change.BREAK_TYPE) if found is None else found).alias("break"),
        F.lit(is_seed).alias("is_seed"),
    ]


def _key_of(contract: Contract) -> Column:
    """The key of a row of history."""
    return F.struct(*(F.col(quoted(c.name)).alias(c.name) for c in contract.key)).alias("key")


def intervals(
    touched: DataFrame,
    contract: Contract,
    run_id: str,
    kinds: Kinds = Kinds(),  # noqa: B008 - a tuple
    emptyings: DataFrame | None = None,
) -> DataFrame:
    """The rows of history for the keys in `touched` (from `effects` and `seeds`).

    `kinds`: what is in `touched`; `emptyings`: the table's `truncates`. A cell that is not known keeps the
    last known value of its key. A seed that nothing follows is left out: nothing is new of its key.
    """
    told = touched if emptyings is None else _emptied(touched, emptyings, contract)
    if kinds.moves:
        told = moves.in_statement_order(told, contract)
    if emptyings is not None:
        told = _without_vain(told)
    in_order = _in_order()
    if kinds.gaps or emptyings is not None:
        told = _carried(told, contract, in_order)
    if kinds.snapshots:
        told = _without_repeats(told)
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    # Commit times can go back while positions go on; an interval never ends before it begins.
    timed = told.withColumn("valid_from", F.max("committed_at").over(so_far))
    lasting = timed.withColumns(
        {
            "last": chain.effect_before(in_order),
            "valid_to": F.lead("valid_from").over(in_order),
            "next_sort_key": F.lead("sort_key").over(in_order),
        }
    ).where(~F.col("is_seed") | F.col("next_sort_key").isNotNull())
    lasting = chain.linked(lasting, contract)
    cells = [F.col("image")[c.name].alias(c.name) for c in contract.columns]
    return lasting.select(
        *_key_first(cells, contract),
        F.col("change_id").alias("_change_id"),
        F.col("operation").alias("_operation"),
        F.col("sort_key").alias("_sort_key"),
        F.col("commit_lsn").alias("_commit_lsn"),
        F.col("committed_at").alias("_committed_at"),
        F.col("gaps").alias("_gaps"),
        F.lit(run_id).alias("_run_id"),
        F.col("valid_from").alias("_valid_from"),
        F.col("valid_to").alias("_valid_to"),
        F.col("next_sort_key").alias("_next_sort_key"),
        F.col("deleted").alias("_is_deleted"),
        F.col("previous_key").alias("_previous_key"),
        F.col("break").alias("_break"),
    ).select(*(F.col(quoted(name)) for name, _ in history_columns(contract)))


def _key_first(cells: list[Column], contract: Contract) -> list[Column]:
    """A deleted row's key comes from the key, also where its image is not known."""
    keys = {c.name for c in contract.key}
    return [
        F.col("key")[c.name].alias(c.name) if c.name in keys else cell
        for cell, c in zip(cells, contract.columns, strict=True)
    ]


def _carried(told: DataFrame, contract: Contract, in_order: WindowSpec) -> DataFrame:
    """Fill each gap with the key's last known cell since its row appeared; keep the gaps that remain."""
    # A row that appears anew owes nothing to one of the same key that was deleted.
    earlier = in_order.rowsBetween(Window.unboundedPreceding, -1)
    lives = told.withColumn("life", F.coalesce(F.sum(F.col("deleted").cast("int")).over(earlier), F.lit(0)))
    in_life = Window.partitionBy("key", "life").orderBy("sort_key", "delivery")
    gap_names = F.coalesce(F.map_keys("gaps"), F.array().cast("array<string>"))
    filled = {}
    for column in contract.columns:
        cell = F.struct(F.col("image")[column.name].alias("value"))
        known = F.when(~F.array_contains(gap_names, column.name), cell)
        # A computed value changes with others: the last one that is known may be none any more.
        is_computed = column.name.lower() in contract.computed
        last = known if is_computed else F.last(known, ignorenulls=True).over(in_life)
        filled[f"known_{column.ordinal}"] = last
    carried = lives.withColumns(filled)
    image = F.struct(*(F.col(f"known_{c.ordinal}")["value"].alias(c.name) for c in contract.columns))
    missing = F.array_compact(
        F.array(*(F.when(F.col(f"known_{c.ordinal}").isNull(), F.lit(c.name)) for c in contract.columns))
    )
    gaps = F.map_filter(
        F.coalesce("gaps", F.create_map().cast(_MAP)), lambda n, _: F.array_contains(missing, n)
    )
    return carried.withColumns({"image": image, "gaps": F.when(F.size(gaps) > 0, gaps)})
