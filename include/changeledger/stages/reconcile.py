"""Reconcile: the run's changes without repetitions, key updates as one, current and history built on them."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from changeledger import change
from changeledger.change import quoted
from changeledger.config import Feed
from changeledger.contract import Contract
from changeledger.plans import Keep, at_hand
from changeledger.reconcile import chain, duplicates, history, pairs
from changeledger.stages import branches
from changeledger.stages.reading import union
from changeledger.stages.run import Run, log
from changeledger.storage import lake
from changeledger.window import Window


def run(spark: SparkSession, feed: Feed, window: Window) -> None:
    this = Run.begin(spark, feed, window)
    if this is None:
        return
    this.begin_from("normalize")
    contracts = this.contracts().values()
    repeated = lake.each(lambda contract: _table(this, contract), contracts)
    _note_duplicates(this, [records for records in repeated if records is not None])
    _note_breaks(this, contracts)
    this.mark_done("reconcile")


def _table(this: Run, contract: Contract) -> DataFrame | None:
    """Build one table; return the dispositions of records that told a change again, if there are any."""
    names = this.names[contract.table]
    published = branches.begin(this, names.history, contract)
    branches.begin(this, names.current, contract)
    if this.new_changes(contract.table).isEmpty():
        return None
    near = _published_near(this, contract)
    repeated = _drop_duplicates(this, contract, near)
    moved, retold = _join_key_updates(this, contract, near)
    with at_hand() as keep:
        rows = _build_history(this, contract, published, retold, keep)
    _build_current(this, contract)
    log.info("%s: %s: %d key updates, history of %s", this.feed.feed, contract.table, moved, rows)
    return repeated


def _note_breaks(this: Run, contracts: Iterable[Contract]) -> None:
    """The image chain's breaks among what the run has written into histories, in the feed's table of them.

    One that was found before keeps the run that found it; one that is none any more goes.
    """
    told = lake.each(lambda contract: _breaks(this, contract), contracts)
    found = [rows for rows in told if rows is not None]
    known = lake.exists(this.spark, this.breaks)
    if not found and not known:
        return
    lake.create(this.spark, this.breaks, change.BREAK_COLUMNS)
    lake.fresh_branch(this.spark, this.breaks, this.branch)
    same = "t.`table` = s.`table` AND t.key = s.key AND t.change_id = s.change_id"
    mended = [_mended(this, contract) for contract in contracts] if known else []
    if mended and not union(mended).isEmpty():
        lake.merge(union(mended), this.breaks, this.branch, same, "WHEN MATCHED THEN DELETE")
    if found:
        again = ", ".join(f"{quoted(n)} = s.{quoted(n)}" for n, _ in change.BREAK_COLUMNS if n != "run_id")
        rows = union(found).withColumn("run_id", F.lit(this.id))
        clauses = f"WHEN MATCHED THEN UPDATE SET {again} WHEN NOT MATCHED THEN INSERT *"
        lake.merge(rows, this.breaks, this.branch, same, clauses)


def _breaks(this: Run, contract: Contract) -> DataFrame | None:
    names = this.names[contract.table]
    touched = lake.read(this.spark, names.history, this.branch).where(F.col("_run_id") == this.id)
    if touched.where(F.col("_break")["kind"].isNotNull()).isEmpty():
        return None
    return chain.breaks(touched, lake.read(this.spark, names.changes, this.branch), contract)


def _mended(this: Run, contract: Contract) -> DataFrame:
    """Published breaks of a table that its history does not have any more."""
    known = lake.read(this.spark, this.breaks).where(F.col("table") == contract.table)
    history_now = lake.read(this.spark, this.names[contract.table].history, this.branch)
    return known.join(chain.places(history_now, contract), ["key", "change_id"], "left_anti")


def _published_near(this: Run, contract: Contract) -> DataFrame | None:
    """The published ledger over the positions of this run's changes; None where it has nothing there.

    A change that comes again, and the other half of a key update, stand at the same position.
    """
    published = lake.read(this.spark, this.names[contract.table].changes)
    if published.isEmpty():
        return None
    ends = this.new_changes(contract.table).agg(
        F.min("commit_lsn").alias("first"),
        F.max("commit_lsn").alias("last"),
        F.count_if(F.col("commit_lsn").isNull()).alias("unplaced"),
    )
    row = ends.collect()[0]
    near = F.col("commit_lsn").between(F.lit(row["first"]), F.lit(row["last"]))
    near = near | F.col("commit_lsn").isNull() if row["unplaced"] else near
    found = published.where(near)
    return None if found.isEmpty() else found


def _drop_duplicates(this: Run, contract: Contract, near: DataFrame | None) -> DataFrame | None:
    """Take changes that are told again off the branch; return the dispositions of their records."""
    ledger = this.names[contract.table].changes
    known = None
    if near is not None:
        joined = near.where(F.col("paired_change_id").isNotNull())
        known = near.select("change_id").unionByName(
            joined.select(F.col("paired_change_id").alias("change_id"))
        )
    # As normalize left them: the branch itself is about to lose these rows.
    new = lake.read(this.spark, ledger, at=this.mark("normalize")).where(F.col("run_id") == this.id)
    repeated = duplicates.repeated(new, known)
    if repeated.isEmpty():
        return None
    lake.delete_changes(repeated, ledger, this.branch)
    return _records_of(new.join(repeated, repeated.columns, "left_semi")).select(
        F.lit(this.id).alias("run_id"),
        F.lit(contract.table).alias("table"),
        F.col("record"),
        F.lit(change.DUPLICATE).alias("disposition"),
        F.lit("delivered_again").alias("reason"),
        F.col("change_id").alias("detail"),
    )


def _note_duplicates(this: Run, dispositions: list[DataFrame]) -> None:
    if dispositions:
        lake.append(union(dispositions), this.dispositions, this.branch)


def _records_of(changes: DataFrame) -> DataFrame:
    """`(change_id, record)` for every raw record that the changes are made of."""
    paired = changes.where(F.col("paired_record").isNotNull())
    return changes.select("change_id", "record").unionByName(
        paired.select("change_id", F.col("paired_record").alias("record"))
    )


def _join_key_updates(this: Run, contract: Contract, near: DataFrame | None) -> tuple[int, DataFrame | None]:
    """Replace the delete and the insert of one update of a key by that update.

    One of the two may be published already: a window's end can part them. Returns the number of updates,
    and the published rows that were replaced, if there are any.
    """
    ledger = this.names[contract.table].changes
    rows = this.new_changes(contract.table)
    if near is not None:
        rows = rows.unionByName(near.where(F.col("operation").isin(change.DELETE, change.INSERT)))
    halves = pairs.halves_of_key_updates(rows)
    count = halves.count()
    if not count:
        return 0, None
    gone = halves.select(F.explode(F.array("deleted", "inserted")).alias("change_id"))
    replaced = rows.where(F.col("operation") != change.UPDATE).join(gone, "change_id", "left_semi")
    updates = pairs.key_updates(rows, halves, contract).withColumn("run_id", F.lit(this.id))
    # First the joined rows, which are computed from the halves; those are no updates.
    lake.append(updates, ledger, this.branch)
    lake.delete_changes(replaced, ledger, this.branch)
    if near is None:
        return count, None
    # From what was written: the halves themselves are gone from the branch.
    retold = pairs.retold(near, this.new_changes(contract.table))
    return count, None if retold.isEmpty() else retold


def _build_history(
    this: Run, contract: Contract, published: DataFrame, retold: DataFrame | None, keep: Keep
) -> str:
    """Extend the `published` history of the keys touched; rebuild it where changes are older than it has.

    `retold`: published changes that are told differently now; the history of their keys is rebuilt.
    """
    names = this.names[contract.table]
    ledger = lake.read(this.spark, names.changes, this.branch)
    new = history.effects(this.new_changes(contract.table), contract)
    # Of every run: a change may come after the truncate that ended its row.
    truncates = history.truncates(ledger)
    emptyings = None if truncates.isEmpty() else truncates
    if published.isEmpty():
        lake.append(_intervals(this, new, emptyings, contract), names.history, this.branch)
        return "all keys"
    came = None if emptyings is None else history.truncates(this.new_changes(contract.table))
    seeds, late = _continued(contract, published, new, came, retold)
    # Asked three times, of which one is enough to search the whole history.
    keep(seeds)
    same_row = " AND ".join(
        [f"t.{quoted(c.name)} = s.{quoted(c.name)}" for c in contract.key]
        + ["t._sort_key = s._sort_key", "t._change_id = s._change_id"]
    )
    if retold is not None:
        lake.delete_intervals(retold.select("change_id"), names.history, this.branch)
    count = late.count()
    goes_on = seeds.drop("first").join(late, "key", "left_anti")
    touched = new.join(late, "key", "left_anti").unionByName(goes_on)
    if count:
        again = history.effects(ledger, contract).join(late, "key", "left_semi")
        touched = touched.unionByName(again)
    if count and emptyings is not None:
        # A late delete leaves a truncate nothing to end.
        ended = history.ended_by_truncates(published, late, contract)
        lake.merge(ended, names.history, this.branch, same_row, "WHEN MATCHED THEN DELETE")
    lake.merge(
        _intervals(this, touched, emptyings, contract),
        names.history,
        this.branch,
        same_row,
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    )
    return f"{count} keys with late changes"


def _continued(
    contract: Contract, published: DataFrame, new: DataFrame, came: DataFrame | None, retold: DataFrame | None
) -> tuple[DataFrame, DataFrame]:
    """The open intervals of the keys touched, as effects; and the keys whose history is no continuation.

    `came`: truncates among the run's own changes; None where the table was never emptied.
    """
    places = new.select("key", "sort_key")
    rebuilt = [] if retold is None else [retold.select("key")]
    if came is not None:
        ended = history.alive_at(published, came, contract)
        places = places.unionByName(ended.select("key", F.lit(None).cast("binary").alias("sort_key")))
        rebuilt.append(ended.where(~F.col("is_open")).select("key"))
    first = places.groupBy("key").agg(F.min("sort_key").alias("first"))
    opened = history.seeds(published.where(F.col("_valid_to").isNull()), contract)
    seeds = opened.join(first, "key", "inner")
    late = seeds.where(F.col("first") < F.col("sort_key")).select("key")
    return seeds, union([late, *rebuilt]).distinct()


def _intervals(this: Run, touched: DataFrame, emptyings: DataFrame | None, contract: Contract) -> DataFrame:
    told = touched if emptyings is None else history.emptied(touched, emptyings, contract)
    has_gaps = not told.where(F.col("gaps").isNotNull()).isEmpty()
    return history.intervals(told, contract, this.id, carry=has_gaps)


def _build_current(this: Run, contract: Contract) -> None:
    """The rows alive among the keys that this run touched, as their open intervals have them."""
    names = this.names[contract.table]
    opened = lake.read(this.spark, names.history, this.branch).where(
        (F.col("_run_id") == this.id) & F.col("_valid_to").isNull()
    )
    columns = [name for name, _ in change.current_columns(contract)]
    if lake.read(this.spark, names.current).isEmpty():
        alive = opened.where(~F.col("_is_deleted"))
        lake.append(alive.select(*map(quoted, columns)), names.current, this.branch)
        return
    same_key = " AND ".join(f"t.{quoted(c.name)} = s.{quoted(c.name)}" for c in contract.key)
    values = ", ".join(f"{quoted(c)} = s.{quoted(c)}" for c in columns)
    listed, sources = ", ".join(map(quoted, columns)), ", ".join(f"s.{quoted(c)}" for c in columns)
    insert = f"INSERT ({listed}) VALUES ({sources})"  # noqa: S608 - names quoted above
    lake.merge(
        opened,
        names.current,
        this.branch,
        same_key,
        # Never older over newer: the position decides, not the order of runs.
        "WHEN MATCHED AND s._is_deleted AND s._sort_key >= t._sort_key THEN DELETE "
        f"WHEN MATCHED AND s._sort_key >= t._sort_key THEN UPDATE SET {values} "
        f"WHEN NOT MATCHED AND NOT s._is_deleted THEN {insert}",
    )
