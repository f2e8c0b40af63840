"""Reconcile: the run's changes without repetitions, key updates as one, current and history built on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from changeledger import change
from changeledger.change import quoted
from changeledger.contract import Contract
from changeledger.plans import Keep, at_hand
from changeledger.reconcile import chain, duplicates, history, pairs
from changeledger.stages import branches
from changeledger.stages.reading import union
from changeledger.stages.run import Run, log, stage
from changeledger.storage import lake


@stage
def run(this: Run) -> None:
    normalized = this.begin_from("normalize").tables
    this.control.begin_stage(this.feed.feed, this.window, "reconcile")
    contracts = this.contracts().values()
    repeated = lake.each(lambda contract: _table(this, contract, normalized), contracts)
    _note_duplicates(this, [records for records in repeated if records is not None])
    _note_breaks(this, contracts)
    built = {*normalized, *(name for c in contracts for name in this.names[c.table])}
    if lake.exists(this.spark, this.breaks) and lake.snapshot_of(this.spark, this.breaks, this.branch):
        built.add(this.breaks)
    this.finish("reconcile", sorted(built))


def _table(this: Run, contract: Contract, normalized: Mapping[str, int]) -> DataFrame | None:
    """Build one table; return the dispositions of records that told a change again, if there are any."""
    names = this.names[contract.table]
    published = branches.begin(this, names.history, contract)
    branches.begin(this, names.current, contract)
    if this.new_changes(contract.table).isEmpty():
        return None
    near = _published_near(this, contract)
    repeated = _drop_duplicates(this, contract, near, normalized[names.changes])
    moved, retold = _join_key_updates(this, contract, near)
    with at_hand() as keep:
        rows = _build_history(this, contract, _Published(published, retold), keep)
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


def _drop_duplicates(
    this: Run, contract: Contract, near: DataFrame | None, normalized: int
) -> DataFrame | None:
    """Take changes that are told again off the branch; return the dispositions of their records.

    `normalized`: the ledger's snapshot as normalize left it; the branch is about to lose these rows.
    """
    ledger = this.names[contract.table].changes
    known = None
    if near is not None:
        joined = near.where(F.col("paired_change_id").isNotNull())
        known = near.select("change_id").unionByName(
            joined.select(F.col("paired_change_id").alias("change_id"))
        )
    new = lake.read(this.spark, ledger, snapshot=normalized).where(F.col("run_id") == this.id)
    repeated = duplicates.repeated(new, known)
    if repeated.isEmpty():
        return None
    lake.delete_changes(repeated, ledger, this.branch)
    return _records_of(new.join(repeated, repeated.columns, "left_semi")).select(
        F.lit(this.id).alias("run_id"),
        F.lit(contract.table).alias("table"),
        F.col("record"),
        F.lit(change.DUPLICATE).alias("disposition"),
        F.lit(change.DELIVERED_AGAIN).alias("reason"),
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


class _Published(NamedTuple):
    """What is published of a table: its history, and changes of it that are told differently now."""

    history: DataFrame
    retold: DataFrame | None


def _build_history(this: Run, contract: Contract, published: _Published, keep: Keep) -> str:
    """Extend the published history of the keys touched; rebuild it where changes are older than it has."""
    names = this.names[contract.table]
    ledger = lake.read(this.spark, names.changes, this.branch)
    new = history.effects(this.new_changes(contract.table), contract)
    # Of every run: a change may come after the truncate that ended its row.
    truncates = history.truncates(ledger)
    emptyings = None if truncates.isEmpty() else truncates
    if published.history.isEmpty():
        lake.append(_intervals(this, new, emptyings, contract), names.history, this.branch)
        return "all keys"
    came = None if emptyings is None else history.truncates(this.new_changes(contract.table))
    # Asked several times, of which one is enough to search the whole history.
    seeds = keep(_opened(contract, published, new, came))
    rebuilt = keep(_rebuilt(this, contract, published, seeds, came))
    count = rebuilt.count()
    goes_on = seeds.drop("first", "left_at").join(rebuilt, "key", "left_anti")
    touched = new.join(rebuilt, "key", "left_anti").unionByName(goes_on)
    if count:
        again = history.effects(ledger, contract).join(rebuilt, "key", "left_semi")
        touched = touched.unionByName(again)
        # Not all of what they had may come again.
        same_key = " AND ".join(f"t.{quoted(c.name)} = s.key.{quoted(c.name)}" for c in contract.key)
        lake.merge(rebuilt, names.history, this.branch, same_key, "WHEN MATCHED THEN DELETE")
    same_row = " AND ".join(
        [f"t.{quoted(c.name)} = s.{quoted(c.name)}" for c in contract.key]
        + ["t._sort_key = s._sort_key", "t._change_id = s._change_id"]
    )
    lake.merge(
        _intervals(this, touched, emptyings, contract),
        names.history,
        this.branch,
        same_row,
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    )
    return f"{count} keys with late changes"


def _opened(contract: Contract, published: _Published, new: DataFrame, came: DataFrame | None) -> DataFrame:
    """The open intervals of the keys touched, as effects, with the `firsts` of their keys.

    `came`: truncates among the run's own changes; None where the table was never emptied.
    """
    firsts = history.firsts(new)
    if came is not None:
        ended = history.alive_at(published.history, came, contract).select("key")
        alone = ended.distinct().join(firsts, "key", "left_anti")
        nothing = (F.lit(None).cast(kind).alias(name) for name, kind in firsts.dtypes if name != "key")
        firsts = firsts.unionByName(alone.select("key", *nothing))
    opened = published.history.where(F.col("_valid_to").isNull())
    return history.seeds(opened, contract).join(firsts, "key", "inner")


def _rebuilt(
    this: Run, contract: Contract, published: _Published, seeds: DataFrame, came: DataFrame | None
) -> DataFrame:
    """The keys whose history is no continuation of what is published."""
    found = [seeds.where(history.is_rebuilt()).select("key")]
    if published.retold is not None:
        found.append(published.retold.select("key"))
    if came is not None:
        ended = history.alive_at(published.history, came, contract)
        found.append(ended.where(~F.col("is_open")).select("key"))
    first = seeds.agg(F.min("first")).collect()[0][0]
    if first is not None:
        # History has no trace of a row of a snapshot that showed what was known till now.
        behind = (F.col("operation") == change.SNAPSHOT) & (F.col("sort_key") > F.lit(first))
        rows = lake.read(this.spark, this.names[contract.table].changes).where(behind)
        shown = seeds.select("key", "first").join(rows.select("key", "sort_key"), "key", "inner")
        found.append(shown.where(F.col("sort_key") > F.col("first")).select("key"))
    return union(found).distinct()


def _intervals(this: Run, touched: DataFrame, emptyings: DataFrame | None, contract: Contract) -> DataFrame:
    return history.intervals(touched, contract, this.id, history.Kinds.of(touched), emptyings)


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
        # Never older over newer: the position decides, not the order of runs. But a row of a snapshot goes
        # back to the change that brought what it showed, where that comes late.
        "WHEN MATCHED AND s._is_deleted AND s._sort_key >= t._sort_key THEN DELETE "
        "WHEN MATCHED AND (s._sort_key >= t._sort_key OR t._operation = 'snapshot') "
        f"THEN UPDATE SET {values} "
        f"WHEN NOT MATCHED AND NOT s._is_deleted THEN {insert}",
    )
