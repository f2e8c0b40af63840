"""What a proof found wrong, in values that people can look up; and the changes that would mend it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger import change
from changeledger.change import RECORD_TYPE, literal, quoted
from changeledger.contract import Column as ContractColumn
from changeledger.reconcile.findings import text_of, texts
from changeledger.reconcile.proof import DIFFERS, KEY, MISSING, SURPLUS, Proof, moment

CELLS: Final = "array<struct<name:string,source:string,published:string>>"
IMAGE: Final = "map<string,string>"

_WHAT: Final[tuple[tuple[str, str], ...]] = (
    ("proof_id", "string"),
    ("database", "string"),
    ("table", "string"),
    ("feed", "string"),
    # The key as JSON.
    ("key", "string"),
)

# One row for each key that is wrong.
DRIFT_COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    *_WHAT,
    ("verdict", "string"),
    # The cells that differ, as text.
    ("cells", CELLS),
    # The last change of the key that the feed has told up to the fence, NULL where it has told none: the row
    # has been wrong since, at the earliest.
    ("change_id", "string"),
    ("operation", "string"),
    ("commit_lsn", "binary"),
    ("committed_at", "timestamp"),
    ("record", RECORD_TYPE),
)

# The changes that would make both equal, one a key. Images are texts by the feed's columns, binaries as 0x
# and hex; a column that is not there is not known.
REPAIR_COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    *_WHAT,
    ("operation", "string"),
    ("before", IMAGE),
    ("after", IMAGE),
    # The place in the order of the change behind which it belongs, NULL where there is none; and its time.
    ("follows", "binary"),
    ("since", "timestamp"),
)

_OPERATIONS: Final = {MISSING: change.INSERT, SURPLUS: change.DELETE, DIFFERS: change.UPDATE}


def explained(proof: Proof, drifts: DataFrame, ledger: DataFrame) -> DataFrame:
    """The own columns of `DRIFT_COLUMNS` and `REPAIR_COLUMNS`, from rows of `judged`, which are few.

    The operation of the change that mends is `repair`. `ledger`: the changes of the feed's table.
    """
    names, own = proof.columns.names, proof.columns.other
    ours = _by_name(proof.snapshot_contract.columns, names)
    theirs = _by_name(proof.published.contract.columns, own)
    wanted = F.broadcast(drifts.select(*KEY, F.col("change_id").alias("version")))
    source = _shown(proof.source(), ours, own, "source").join(wanted.select(*KEY), [*KEY], "left_semi")
    told = drifts.withColumnRenamed("change_id", "version").join(source, [*KEY], "left")
    # The current row where that is what was compared; else the version in history.
    for name, rows in (("current", proof.current), ("past", proof.history)):
        versions = _shown(rows(F.col("_change_id").alias("version")), theirs, own, name, "version")
        at = [*KEY, "version"]
        told = told.join(versions.join(wanted, at, "left_semi"), at, "left")
    told = told.join(_last_changes(proof, wanted.select(*KEY), ledger), [*KEY], "left")
    published = F.coalesce("current", "past")
    verdict = F.col("verdict")
    mending = F.element_at(F.create_map(*(F.lit(x) for p in _OPERATIONS.items() for x in p)), verdict)
    return told.select(
        "verdict",
        F.coalesce(F.col("source")["key"], published["key"]).alias("key"),
        F.col("source")["texts"].alias("source"),
        published["texts"].alias("published"),
        "numbers",
        *("change_id", "operation", "commit_lsn", "committed_at", "record"),
        mending.alias("repair"),
        published["image"].alias("before"),
        F.when(verdict != SURPLUS, F.col("source")["image"]).alias("after"),
        F.col("sort_key").alias("follows"),
        # What was read was right when the reading began, but for what has changed since.
        F.greatest(moment(proof.fence.since), F.col("committed_at")).alias("since"),
    ).withColumn("cells", F.expr(_cells(names)))


def _by_name(columns: Sequence[ContractColumn], names: Sequence[str]) -> list[ContractColumn]:
    found = {c.name: c for c in columns}
    return [found[name] for name in names]


def _shown(
    rows: DataFrame, columns: Sequence[ContractColumn], names: Sequence[str], side: str, *more: str
) -> DataFrame:
    """`KEY`, `more`, and under the side's name the row's key as JSON, its cells for people, and its image."""
    keys = [c for c in columns if c.key_position]
    key = F.to_json(
        F.struct(*(F.expr(f"image.{quoted(c.name)}").alias(c.name)
                   for c in sorted(keys, key=lambda c: c.key_position)))
    )  # fmt: skip
    told = F.struct(
        key.alias("key"), texts("image", columns).alias("texts"), _image(columns, names).alias("image")
    )
    return rows.select(*KEY, *more, told.alias(side))


def _image(columns: Sequence[ContractColumn], names: Sequence[str]) -> Column:
    """The cells that are known as texts, by `names`."""
    entries = []
    for name, column in zip(names, columns, strict=True):
        cell = f"struct({literal(name)} AS name, {text_of('image', column)} AS value)"
        gap = f"coalesce(map_contains_key(image_gaps, {literal(column.name)}), false)"
        entries.append(f"CASE WHEN NOT {gap} THEN {cell} END")
    return F.expr(f"map_from_entries(array_compact(array({', '.join(entries)})))")


def _last_changes(proof: Proof, keys: DataFrame, ledger: DataFrame) -> DataFrame:
    """Of each key the last change that had begun when the fence ended, as the ledger has it."""
    versions = proof.history(
        *map(F.col, ("_change_id", "_sort_key")), proof.fence.is_begun().alias("is_begun")
    )
    begun = versions.where("is_begun").join(F.broadcast(keys), [*KEY], "left_semi")
    last = begun.groupBy(*KEY).agg(F.max_by("_change_id", "_sort_key").alias("change_id"))
    names = ("change_id", "operation", "sort_key", "commit_lsn", "committed_at", "record")
    return ledger.select(*names).join(F.broadcast(last), "change_id")


def _cells(names: Sequence[str]) -> str:
    """SQL text of `cells`, from `numbers` and the arrays of texts."""
    name = f"get(array({', '.join(map(literal, names))}), n)"
    fields = f"'name', {name}, 'source', get(source, n), 'published', get(published, n)"
    return f"CAST(transform(numbers, n -> named_struct({fields})) AS {CELLS})"
