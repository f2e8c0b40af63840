"""The rules that a run's tables must satisfy before they are published, as Spark expressions.

A rule asks either something of every row alone (`violated`), or finds the offences by itself: then each
row of its `rows` is one. Building a rule reads nothing; `counting` counts what rules find.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger import change
from changeledger.contract import Contract

Severity = Literal["critical", "error", "warning"]

# How many change ids or records an offence of several rows shows.
_SHOWN = 5


@dataclass(frozen=True)
class Rule:
    """`says` is the rule as one sentence for people; `column` is what it is about.

    `violated`: true on an offending row of `rows`; None where every row of `rows` is an offence.
    `shown`: the columns that let a person find the offence again. `counted`: the number of offences
    where it is known already. A violated `warning` is reported and does not stop the release, an `error`
    stops it unless a person lets it pass, a `critical` one always does: records or changes would be lost.
    """

    name: str
    column: str
    says: str
    rows: DataFrame
    violated: Column | None = None
    shown: tuple[str | Column, ...] = ("*",)
    counted: int | None = None
    severity: Severity = "error"

    @property
    def offences(self) -> DataFrame:
        return self.rows if self.violated is None else self.rows.where(self.violated)


def ledger_rules(
    contract: Contract, changes: DataFrame, kept: DataFrame, previous: DataFrame | None
) -> list[Rule]:
    """Rules for the run's new ledger rows of one table.

    `kept` holds the branch's rows of other runs; `previous` every row of the published ledger that must
    stay, None before the first. Of both only `change_id` is read.
    """
    rules = [
        *_row_rules(contract, changes),
        _change_id_unique(changes, previous),
        _order_strict(changes),
    ]
    return rules if previous is None else [*rules, _ledger_keeps(kept, previous)]


def _ledger_keeps(kept: DataFrame, previous: DataFrame) -> Rule:
    counted = kept.agg(F.count(F.lit(1)).alias("kept_rows"))
    return Rule(
        "ledger_keeps_everything",
        "change_id",
        "A run adds to the ledger and takes nothing from what it had, but for halves that it joins.",
        counted.crossJoin(previous.agg(F.count(F.lit(1)).alias("published_rows"))).where(
            F.col("kept_rows") != F.col("published_rows")
        ),
        severity="critical",
    )


def _row_rules(contract: Contract, changes: DataFrame) -> list[Rule]:
    shown = ("key", "change_id", "operation", "flags", "record")

    def rule(name: str, column: str, says: str, violated: Column) -> Rule:
        return Rule(name, column, says, changes, violated, shown)

    return [
        rule(
            "mask_agrees_with_images",
            "changed",
            "The update mask names exactly the columns that differ between the images where both are known.",
            # Compared cell by cell where the change is made; here only its finding is counted.
            F.array_contains("flags", change.MASK_DISAGREES),
        ),
        rule(
            "operation_has_its_images",
            "operation",
            "An insert or snapshot has only an after image, a delete only a before image, and an update has "
            "both unless its before image is known to be missing.",
            ~F.coalesce(_images_fit(contract), F.lit(False)),
        ),
        rule(
            "key_not_null",
            "key",
            "Every change has a whole key, an id, a place in the order, an operation, a commit time and the "
            "record that it came from.",
            _identity_missing(contract),
        ),
        rule(
            "lsn_width",
            "commit_lsn",
            "A log sequence number is 10 bytes wide.",
            _any(F.length(name) != 10 for name in ("commit_lsn", "change_lsn")),
        ),
    ]


def _images_fit(contract: Contract) -> Column:
    """Whether the row has the images of its operation; an image that is there carries its key.

    Whether an image is NULL makes Spark read the whole of it: this is what the pass over the rows costs.
    """
    operation = F.col("operation")
    no_before, no_after = F.col("before").isNull(), F.col("after").isNull()
    keyed_before, keyed_after = (
        ~_any(F.col(image).getField(c.name).isNull() for c in contract.key) for image in ("before", "after")
    )
    said_missing = F.coalesce(F.array_contains("flags", change.BEFORE_UNKNOWN), F.lit(False))
    return (
        F.when(operation.isin(change.INSERT, change.SNAPSHOT), no_before & keyed_after)
        .when(operation == change.DELETE, keyed_before & no_after)
        .when(operation == change.UPDATE, keyed_after & (keyed_before | (no_before & said_missing)))
        .when(operation == change.TRUNCATE, no_before & no_after)
    )


def _identity_missing(contract: Contract) -> Column:
    # A truncate is of the table: it has no key.
    keyless = _any(F.col("key").getField(c.name).isNull() for c in contract.key)
    of_a_row = F.coalesce(F.col("operation") != change.TRUNCATE, F.lit(True))
    needed = ("change_id", "sort_key", "operation", "committed_at", "record.source")
    return (keyless & of_a_row) | _any(F.col(name).isNull() for name in needed)


def _change_id_unique(changes: DataFrame, previous: DataFrame | None) -> Rule:
    offences = (
        changes.groupBy("change_id")
        .agg(F.count(F.lit(1)).alias("rows"), _some("record").alias("records"))
        .where(F.col("rows") > 1)
        .withColumn("where", F.lit("twice in this run"))
    )
    if previous is not None:
        # An inner join, because Spark can then hash the small side, which is the run's.
        again = changes.select("change_id", "record").join(previous.select("change_id"), "change_id", "inner")
        offences = offences.unionByName(
            again.select(
                "change_id",
                F.lit(2).cast("bigint").alias("rows"),
                F.array("record").alias("records"),
                F.lit("published already").alias("where"),
            )
        )
    return Rule(
        "change_id_unique",
        "change_id",
        "No two changes have the same id, within the run and against everything published.",
        offences,
        severity="critical",
    )


def _order_strict(changes: DataFrame) -> Rule:
    offences = (
        changes.groupBy("key", "sort_key")
        .agg(F.count(F.lit(1)).alias("rows"), _some("change_id").alias("change_ids"))
        .where(F.col("rows") > 1)
    )
    return Rule(
        "order_strict",
        "sort_key",
        "No two changes of one key stand at the same place of the order.",
        offences,
    )


def published_rules(contract: Contract, run_id: str, history: DataFrame, current: DataFrame) -> list[Rule]:
    """Rules for what would be published: the branch's whole `history` and `current` of one table."""
    key = [change.quoted(c.name) for c in contract.key]
    touched = history.where(F.col("_run_id") == run_id)
    # One struct, so that no key column's name meets the others.
    shown = (F.struct(*key).alias("key"), "_change_id", "_sort_key", "_run_id")
    open_rows = history.where(F.col("_valid_to").isNull())
    backward = _any(
        [F.col("_valid_to") < F.col("_valid_from"), F.col("_next_sort_key") <= F.col("_sort_key")]
    )
    return [
        Rule(
            "interval_forward",
            "_valid_to",
            "No interval of the history ends before it begins, in time or in the order.",
            touched,
            backward,
            (*shown, "_valid_from", "_valid_to", "_next_sort_key"),
        ),
        Rule(
            "one_open_interval",
            "_valid_to",
            "A key has at most one open interval in the history.",
            _repeated(open_rows, touched, contract),
        ),
        Rule(
            "current_equals_open_history",
            "_is_deleted",
            "There are as many current rows as open intervals of rows that are not deleted.",
            _unequal_counts(open_rows, current),
        ),
        Rule(
            "current_key_unique",
            ", ".join(key),
            "A key has at most one current row.",
            _repeated(current, touched, contract),
        ),
        Rule(
            "current_key_not_null",
            ", ".join(key),
            "No current row has a key column that is NULL.",
            current.where(F.col("_run_id") == run_id),
            _any(F.col(name).isNull() for name in key),
            shown,
        ),
    ]


def image_chain(breaks: DataFrame, severity: Severity) -> Rule:
    """`breaks`: those of one table that this run has found, in the columns of `change.BREAK_COLUMNS`."""
    return Rule(
        "image_chain",
        "before",
        "A change finds its row as the change before it has left it, as far as both images are known.",
        breaks,
        shown=("key", "change_id", "kind", "columns", "known", "before", "flags", "record"),
        severity=severity,
    )


def _repeated(rows: DataFrame, touched: DataFrame, contract: Contract) -> DataFrame:
    """Keys of `touched` that `rows` has more than once: only those can have become so in this run."""
    # One struct, so that no key column's name meets the names used here.
    key = F.struct(*(change.quoted(c.name) for c in contract.key))
    keys = touched.select(key.alias("touched_key"))
    return (
        rows.select(key.alias("key"), "_change_id")
        .join(keys, F.col("key") == F.col("touched_key"), "left_semi")
        .groupBy("key")
        .agg(F.count(F.lit(1)).alias("rows"), _some("_change_id").alias("change_ids"))
        .where(F.col("rows") > 1)
    )


def _unequal_counts(open_rows: DataFrame, current: DataFrame) -> DataFrame:
    """One row with both counts when they differ, none otherwise."""
    alive = open_rows.where(~F.coalesce(F.col("_is_deleted"), F.lit(False)))
    counted = current.agg(F.count(F.lit(1)).alias("current_rows"))
    return counted.crossJoin(alive.agg(F.count(F.lit(1)).alias("open_history_rows"))).where(
        F.col("current_rows") != F.col("open_history_rows")
    )


def _some(column: str) -> Column:
    return F.slice(F.collect_list(column), 1, _SHOWN)


def _any(conditions: Iterable[Column]) -> Column:
    """True where one condition is; a condition that is NULL is not."""
    return reduce(or_, (F.coalesce(c, F.lit(False)) for c in conditions))
