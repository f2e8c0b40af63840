"""Repairs: what a proof has planned to make right, taken into a run of its own on request.

A plan is told like records of a source: stored as it was planned, decoded by the table's contract,
accounted for, reconciled and audited. Each change has the flag `repaired`, and the proof for its transaction.
It stands in the order behind the last change that the feed had told of its key when the source was read, and
before all that came later: what the source has done since is not undone.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger import change, images
from changeledger.contract import Column as ContractColumn
from changeledger.contract import Contract
from changeledger.dialects import base
from changeledger.errors import ConfigError
from changeledger.reconcile.drift import IMAGE
from changeledger.stages.proofs import DRIFTED, REPAIRS, SOURCE
from changeledger.stages.reading import Input
from changeledger.stages.run import Run, log
from changeledger.storage import lake

_SIDES: Final = ("before", "after")
_COLUMNS: Final = (
    ("run_id", "string"),
    ("record", change.RECORD_TYPE),
    ("table", "string"),
    ("proof_id", "string"),
    ("operation", "string"),
    ("before", IMAGE),
    ("after", IMAGE),
    ("follows", "binary"),
    ("since", "timestamp"),
)

# Behind a change, and before the next one: the places of a dialect do not begin with one another.
_BEHIND: Final = b"\xff"
# Before the first change of a key.
_FIRST: Final = b"\x00"


def take(this: Run) -> None:
    """What the last proofs against the source have planned, for the request's tables.

    Taken once: the run that is tried again applies what it took, whatever proofs have found meanwhile.
    Raises ConfigError where none of them has found drift.
    """
    lake.create(this.spark, this.repairs, _COLUMNS, ("run_id",))
    taken = this.planned()
    if taken is not None and not taken.isEmpty():
        return
    feed, tables = this.feed, {t.table for t in this.whole.only(this.window.request.tables).tables}
    proofs = [
        row.id
        for row in this.control.last_proofs(feed.database).get(feed.feed, [])
        if (row.against, row.outcome) == (SOURCE, DRIFTED) and (row.table in tables or not tables)
    ]
    if not proofs:
        raise ConfigError(
            f"there is nothing to repair: no last proof of {feed.feed!r} against its source has found drift",
            f"`changeledger verify {feed.database} --take new` looks, and plans what would mend it",
        )
    record = base.row_record(F.col("proof_id"), F.encode("key", "UTF-8"))
    plans = lake.read(this.spark, REPAIRS).where(F.col("proof_id").isin(proofs))
    told = plans.withColumns({"run_id": F.lit(this.id), "record": record})
    typed = told.select(*(F.col(name).cast(kind) for name, kind in _COLUMNS))
    lake.replace_partition(typed, this.repairs, "run_id", this.id)
    log.info("%s: repairs as planned by %s", feed.feed, ", ".join(proofs))


def inputs(this: Run) -> list[Input]:
    """One for each table that the run repairs."""
    planned = this.planned()
    if planned is None:
        return []
    found = []
    for row in planned.select("table").distinct().collect():
        contract = this.control.contract(this.feed.feed, row["table"])
        assert contract is not None, "a proof reads what was published"
        of_table = planned.where(F.col("table") == row["table"])
        told = images.fitted(decoded(of_table, contract), contract, contract)
        found.append(Input(contract.table, contract, told))
    return found


def decoded(planned: DataFrame, contract: Contract) -> DataFrame:
    """One row of `base.DECODED` for each planned repair of the contract's table."""
    told = planned.withColumn(
        "raw_value", F.encode(F.to_json(F.struct("table", "proof_id", "operation", *_SIDES)), "UTF-8")
    )
    members = {f"{side}_members": F.col(side) for side in _SIDES}
    texts = {f"{side}_texts": images.texts(F.col(side), contract) for side in _SIDES}
    staged = told.withColumns({**members, **texts}).drop(*_SIDES)
    cells = images.read_cells(staged, _SIDES, contract, images.Wire(lambda text, _: text, _value), ())
    before, after = (images.cells(side, contract) for side in _SIDES)
    known = [f"coalesce({new}, {old})" for new, old in zip(after, before, strict=True)]
    gaps = {f"{side}_gaps": images.gaps(f"{side}_members", side, contract, ()) for side in _SIDES}
    keyed = cells.withColumns({"key": images.key_of(known, contract), **gaps})
    # Of the two images, the one that has something wrong.
    wrong = {
        "unknown": F.coalesce(
            *(images.unknown_members(F.col(f"{side}_members"), contract) for side in _SIDES)
        ),
        "misfits": F.coalesce(*(images.misfits(side, contract, ()) for side in _SIDES)),
    }
    found = base.Problems()
    base.add_image_problems(found, contract)
    judged = found.told(keyed.withColumns(wrong))
    is_update = F.col("operation") == change.UPDATE
    differing = images.differing(before, after, contract.names)
    shown = images.without_gaps(differing, F.col("before_gaps"), F.col("after_gaps"))
    place = F.concat(F.col("follows"), F.lit(_BEHIND))
    return judged.select(
        "operation",
        "key",
        F.lit(None).cast(change.key_type(contract)).alias("previous_key"),
        *(images.image(side, contract).alias(side) for side in _SIDES),
        *gaps,
        F.when(is_update, shown).alias("changed"),
        _nothing("string", "mask"),
        *(_nothing("binary", name) for name in ("commit_lsn", "change_lsn")),
        _nothing("bigint", "ordinal"),
        F.coalesce(place, F.lit(_FIRST)).alias("sort_key"),
        F.col("since").alias("committed_at"),
        F.col("proof_id").alias("transaction_id"),
        F.array(F.lit(change.REPAIRED)).alias("flags"),
        "record",
        base.quarantined_if(F.col("reason"), F.lit(change.CHANGE)).alias("disposition"),
        "reason",
        "detail",
        F.lit(base.WHOLE).alias("part"),
        _nothing("binary", "pair_key"),
        _nothing("binary", "raw_key"),
        "raw_value",
        _nothing(base.HEADERS_TYPE, "raw_headers"),
    )


def _nothing(kind: str, name: str) -> Column:
    return F.lit(None).cast(kind).alias(name)


def _value(text: str, column: ContractColumn) -> str:
    """A cell from the text that `findings.text_of` makes of it."""
    if column.spark_type == "binary":
        return f"try_to_binary(substring({text}, 3), 'hex')"
    return f"try_cast({text} AS {column.spark_type})"
