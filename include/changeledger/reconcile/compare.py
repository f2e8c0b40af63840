"""Two feeds of one database, change by change.

Every change becomes one or two effects on a key: an update of a key removes one row and brings another, as
the delete and the insert do by which other tools tell it; and a delete that an insert of the same key
follows in its transaction is an update. Effects meet by commit LSN, key, and their number there: without
common LSNs, by key and number alone. What does not meet its like is looked at again (`second_look`).

What travels is narrow: of each image one 64-bit hash per column, NULL where the feed does not know the cell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from changeledger import change
from changeledger.change import literal, quoted
from changeledger.contract import Contract
from changeledger.errors import ContractError
from changeledger.reconcile.forms import Form, form_of

EQUAL: Final = "equal"
# Told by the reference alone, or by the other feed alone.
MISSING: Final = "missing"
EXTRA: Final = "extra"
DIFFERS: Final = "differs"
# Told by both, but not at the same place.
ORDER: Final = "order"
# The same value in another text.
REPRESENTATION: Final = "representation"
# A difference that the tools' own rules explain, of one of the classes below.
LEGITIMATE: Final = "legitimate"
VERDICTS: Final = (EQUAL, MISSING, EXTRA, DIFFERS, ORDER, REPRESENTATION, LEGITIMATE)
FAULTS: Final = (MISSING, EXTRA, DIFFERS, ORDER)

# One feed did not send a cell or an image that the other has.
NOT_SENT: Final = "not_sent"
NO_OP_UPDATE: Final = "no_op_update"
# One update in one feed, delete and insert in the other.
TOLD_APART: Final = "update_told_as_delete_and_insert"
# Both feeds have it, and their positions cannot be compared.
ORDER_UNKNOWN: Final = "order_unknown"
CLASSES: Final = (NOT_SENT, NO_OP_UPDATE, TOLD_APART, ORDER_UNKNOWN)

# Stands for a column in a difference of operations.
OPERATION: Final = "(operation)"

PLACE: Final = ("place", "key_1", "key_2")
_WHERE: Final = ("sort_key", "change_id", "committed_at")
_SIDE: Final = ("sort_key", "op", "before", "after", "texts", "change_id", "committed_at", "no_op", "apart")


class Side(NamedTuple):
    """One feed's ledger of a table, over the positions to compare."""

    changes: DataFrame
    contract: Contract
    # May it have updates of keys?
    moves: bool = True


@dataclass(frozen=True)
class Columns:
    """The columns that both feeds capture: under the reference's names, and what the other calls them."""

    names: Sequence[str]
    forms: Sequence[Form]
    other: Sequence[str]
    key: Sequence[int]

    @classmethod
    def of(cls, reference: Contract, other: Contract) -> Columns:
        """Raises ContractError where the feeds do not agree on the table's key."""
        computed = reference.computed | other.computed
        theirs = {c.name.lower(): c for c in other.columns if c.name.lower() not in computed}
        both = [(c, theirs[c.name.lower()]) for c in reference.columns if c.name.lower() in theirs]
        keys = [[c.name.lower() for c in contract.key] for contract in (reference, other)]
        if keys[0] != keys[1]:
            raise ContractError(
                f"the feeds do not agree on the key of {reference.table}: {keys[0]} and {keys[1]}",
                "state the same `key:` for the table in both feeds' YAML",
            )
        at = {c.name.lower(): i for i, (c, _) in enumerate(both)}
        return cls(
            [c.name for c, _ in both],
            [form_of(c, o) for c, o in both],
            [o.name for _, o in both],
            [at[name] for name in keys[0]],
        )

    @property
    def with_texts(self) -> list[int]:
        return [i for i, form in enumerate(self.forms) if form.text is not None]


def matched(
    reference: Side, other: Side, columns: Columns, by_position: bool, within: DataFrame | None = None
) -> DataFrame:
    """One row per pair of effects, or effect without a partner: `PLACE`, a struct for each side (`reference`,
    `other`), `verdict`, `class`, and `columns` (numbers of those that differ).

    `within`: rows of `PLACE`, at which alone is looked.

    Both sides are shuffled and sorted once, by place and key.
    """

    def told(side: Side, names: Sequence[str], name: str) -> DataFrame:
        found = effects(side, columns, names, by_position)
        if within is not None:
            found = found.join(within, [*PLACE], "left_semi")
        return _numbered(_joined_in_transaction(found, by_position), name)

    left = told(reference, columns.names, "reference")
    right = told(other, columns.other, "other")
    right = right.withColumnsRenamed({name: f"other_{name}" for name in (*PLACE, "n")})
    same_place = [F.col(name) == F.col(f"other_{name}") for name in PLACE]
    # The number is no key of the join where a place has few effects of a key: the order in which they were
    # numbered then serves the join too. As a difference Spark does not take it for a key.
    number = F.col("n") - F.col("other_n") == 0 if by_position else F.col("n") == F.col("other_n")
    place = [F.coalesce(name, f"other_{name}").alias(name) for name in PLACE]
    joined = left.join(right, [*same_place, number], "full_outer").select(*place, "reference", "other")
    return judged(joined, columns)


class Effect(NamedTuple):
    """What a change does to one key: `op` is i, u, d or t; of which images it tells."""

    op: Column
    before: Column
    after: Column


def effects(side: Side, columns: Columns, names: Sequence[str], by_position: bool) -> DataFrame:
    """What each change does to a key: `PLACE` and `_SIDE` but for `apart`."""
    before, after = (F.expr(hashes(s, columns, names)) for s in ("before", "after"))
    texts = F.array(*(F.expr(hashes(s, columns, names, texts=True)) for s in ("before", "after")))

    def in_full(effect: Effect) -> list[Column]:
        return [
            effect.op.alias("op"),
            F.when(effect.before, before).alias("before"),
            F.when(effect.after, after).alias("after"),
            texts.alias("texts"),
        ]

    return on_keys(side, columns, names, by_position, in_full)


def on_keys(
    side: Side,
    columns: Columns,
    names: Sequence[str],
    by_position: bool,
    content: Callable[[Effect], Sequence[Column]],
) -> DataFrame:
    """A row for each key that a change touches: `PLACE`, where it stands, and what `content` takes of it.

    Snapshot rows are no changes of the log, and are left out.
    """
    changes = side.changes.where(F.col("operation") != change.SNAPSHOT)
    moves = F.col("previous_key").isNotNull()
    place = F.col("commit_lsn") if by_position else F.lit(b"")
    codes = {change.INSERT: "i", change.UPDATE: "u", change.DELETE: "d", change.TRUNCATE: "t"}
    op = F.element_at(F.create_map(*(F.lit(x) for pair in codes.items() for x in pair)), F.col("operation"))
    no_op = (F.col("operation") == change.UPDATE) & (F.size("changed") == 0)

    def touched(told: DataFrame, key: str, effect: Effect) -> DataFrame:
        common = [place.alias("place"), *map(F.col, _WHERE), no_op.alias("no_op")]
        return told.select(*common, *key_hashes(key, columns, names), *content(effect))

    yes, no = F.lit(True), F.lit(False)
    own = touched(changes, "key", Effect(F.when(moves, F.lit("i")).otherwise(op), ~moves, yes))
    # Most tables have none, and then their images need not be read for it.
    if not side.moves:
        return own
    return own.unionByName(touched(changes.where(moves), "previous_key", Effect(F.lit("d"), yes, no)))


def key_hashes(key: str, columns: Columns, names: Sequence[str]) -> list[Column]:
    cells = ", ".join(columns.forms[i].value.format(f"{key}.{quoted(names[i])}") for i in columns.key)
    return [F.expr(f"xxhash64({n}, {cells})").alias(f"key_{n}") for n in (1, 2)]


def hashes(side: str, columns: Columns, names: Sequence[str], texts: bool = False) -> str:
    """SQL text of array<bigint>: a hash of each cell, NULL where it is a gap; NULL without an image."""
    numbers = columns.with_texts if texts else range(len(names))
    each, known = [], []
    for i in numbers:
        form = columns.forms[i].text if texts else columns.forms[i].value
        assert form is not None, "with_texts"
        each.append(f"xxhash64({form.format(f'{side}.{quoted(names[i])}')})")
        known.append(f"CASE WHEN NOT map_contains_key({side}_gaps, {literal(names[i])}) THEN {each[-1]} END")
    if not each:
        return "CAST(NULL AS ARRAY<BIGINT>)"
    return (
        f"CASE WHEN {side} IS NOT NULL THEN CASE WHEN {side}_gaps IS NULL THEN array({', '.join(each)}) "
        f"ELSE array({', '.join(known)}) END END"
    )


def _joined_in_transaction(told: DataFrame, by_position: bool) -> DataFrame:
    """A delete that an insert of its key follows at once, in one transaction, is an update."""
    # Without positions the commit time stands for the transaction.
    transaction = PLACE if by_position else (*PLACE, "committed_at")
    at_place = Window.partitionBy(*transaction).orderBy("sort_key")
    op = F.col("op")
    near = told.withColumns(
        {
            "last": F.lag(F.struct("op", "before", "texts")).over(at_place),
            "next_op": F.lead("op").over(at_place),
        }
    )
    goes_on = (op == "d") & F.coalesce(F.col("next_op") == "i", F.lit(False))
    is_joined = (op == "i") & F.coalesce(F.col("last")["op"] == "d", F.lit(False))
    texts = F.array(F.get(F.col("last")["texts"], F.lit(0)), F.get("texts", F.lit(1)))
    return near.where(~goes_on).withColumns(
        {
            "op": F.when(is_joined, F.lit("u")).otherwise(op),
            "before": F.when(is_joined, F.col("last")["before"]).otherwise(F.col("before")),
            "texts": F.when(is_joined, texts).otherwise(F.col("texts")),
            "apart": is_joined,
        }
    )


def _numbered(told: DataFrame, side: str) -> DataFrame:
    """`PLACE`, `n` and the rest in one struct of the side's name."""
    at_place = Window.partitionBy(*PLACE).orderBy("sort_key")
    return told.withColumn("n", F.row_number().over(at_place)).select(
        *PLACE, "n", F.struct(*_SIDE).alias(side)
    )


def judged(pairs: DataFrame, columns: Columns) -> DataFrame:
    """`verdict`, `class`, and `columns` of pairs of `reference` and `other`, either of which may be NULL."""
    one, other = F.col("reference"), F.col("other")
    same = (
        (one["op"] == other["op"])
        & one["before"].eqNullSafe(other["before"])
        & one["after"].eqNullSafe(other["after"])
    )
    different = F.array_union(*(_different(side, range(len(columns.names))) for side in ("before", "after")))
    loose = F.array_union(*(_different(f"texts[{at}]", columns.with_texts) for at in (0, 1)))
    unknown = F.expr(" OR ".join(_unknown(side) for side in ("before", "after")))
    apart = one["apart"] != other["apart"]
    alone = F.when(one["no_op"] | other["no_op"], F.lit(LEGITIMATE))
    marked = pairs.withColumns(
        {
            "same": same,
            # Looked at only where the quick comparison of whole images fails.
            "different": F.when(~same, different),
            "loose": F.when(~one["texts"].eqNullSafe(other["texts"]), loose),
        }
    )
    verdict = (
        F.when(other.isNull(), F.coalesce(alone, F.lit(MISSING)))
        .when(one.isNull(), F.coalesce(alone, F.lit(EXTRA)))
        .when(one["op"] != other["op"], F.lit(DIFFERS))
        .when(F.size("different") > 0, F.lit(DIFFERS))
        .when(F.size("loose") > 0, F.lit(REPRESENTATION))
        .when(~F.col("same") & unknown, F.lit(LEGITIMATE))
        .when(apart, F.lit(LEGITIMATE))
        .otherwise(F.lit(EQUAL))
    )
    reason = (
        F.when(F.col("verdict") != LEGITIMATE, F.lit(None))
        .when(one.isNull() | other.isNull(), F.lit(NO_OP_UPDATE))
        .when(~F.col("same") & unknown, F.lit(NOT_SENT))
        .otherwise(F.lit(TOLD_APART))
    )
    found = (
        F.when(F.col("verdict") == REPRESENTATION, F.col("loose"))
        .when(one["op"] != other["op"], F.array(F.lit(-1)))
        .when(F.col("verdict") == DIFFERS, F.col("different"))
    )
    return (
        marked.withColumn("verdict", verdict)
        .withColumns({"class": reason, "columns": found})
        .drop("same", "different", "loose")
    )


def _different(path: str, numbers: Sequence[int]) -> Column:
    """array<int>: the numbers of the columns whose hashes are known on both sides, and differ."""
    if not numbers:
        return F.array().cast("array<int>")
    one, other = (f"get({side}.{path}, at)" for side in ("reference", "other"))
    number = f"IF({one} != {other}, number, NULL)"
    told = f"transform(array({', '.join(map(str, numbers))}), (number, at) -> {number})"
    return F.expr(f"coalesce(array_compact({told}), CAST(array() AS ARRAY<INT>))")


def _unknown(side: str) -> str:
    """SQL text: does one side know a cell, or the image, that the other does not?"""
    one, other = f"reference.{side}", f"other.{side}"
    cells = f"zip_with({one}, {other}, (a, b) -> (a IS NULL) != (b IS NULL))"
    return f"(({one} IS NULL) != ({other} IS NULL) OR coalesce(exists({cells}, x -> x), false))"
