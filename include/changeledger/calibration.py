"""In which byte order a table's change masks are written, found out from what its records say.

One- and two-byte masks often fit both orders, and sources contradict their own pages, so the order is not
believed but proved, on rules that hold for every record read in the right order:

* the bits of header columns are 0;
* an INSERT sets the columns that it inserted: at least those that are not NULL;
* a DELETE sets the key and nothing else (Qlik), or every column (SQL Server);
* an UPDATE sets exactly the columns in which its images differ, and none beyond the table.

`facts` takes from decoded records what the rules need, `evidence` counts, and `mask_order` judges. Large
values, computed columns and gaps are left out: of them images or masks do not tell. An update whose mask is
empty is legal and says nothing.

Sources: the pages on Qlik's change tables and data messages, and on `cdc.<capture_instance>_CT`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from changeledger import change, masks
from changeledger.config import ByteOrder
from changeledger.contract import Column as ContractColumn
from changeledger.contract import Contract
from changeledger.mask_order import COUNTS, ORDERS, Evidence
from changeledger.plans import sealed

# The counts that an example is kept of.
_SHOWN = ("big", "little", "undecided", "neither")


@dataclass(frozen=True)
class MaskRules:
    """What the masks of one table must obey, by its dialect."""

    delete_sets: Literal["key", "all"]
    # Columns that the mask counts and never sets.
    header_ordinals: tuple[int, ...] = ()
    # Columns whose bits say nothing, beside large and computed ones.
    excluded: frozenset[str] = frozenset()


def facts(decoded: DataFrame, shape: Contract) -> DataFrame:
    """What `evidence` needs of decoded records whose images are joined: a row for each with a mask.

    Columns: `mask` (binary; decoded records have it as hex text), `kind` (the operation), and as words of
    ordinals `differing` (updates with both images), `known` (inserts: columns that are not NULL) and
    `gaps` (NULL for none). The order in which the records were decoded does not matter.
    """
    # Cells by number: column names need no quoting then. The cast also keeps Spark from writing the
    # image's own expression once for each of its cells.
    cells = ",".join(f"_{at}:{c.spark_type}" for at, c in enumerate(shape.columns))
    no_names = F.array().cast("array<string>")
    gap_names = [F.coalesce(F.map_keys(f"{side}_gaps"), no_names) for side in ("before", "after")]
    told = (
        sealed(decoded)
        .where((F.col("disposition") == change.CHANGE) & F.col("mask").isNotNull())
        .select(
            masks.from_text(F.col("mask")).alias("mask"),
            F.col("operation").alias("kind"),
            *(F.col(side).cast(f"struct<{cells}>").alias(side) for side in ("before", "after")),
            F.array_union(*gap_names).alias("gap_names"),
        )
    )
    differing = _words_where(shape, lambda at, _: f"NOT (before._{at} <=> after._{at})")
    known = _words_where(shape, lambda at, _: f"after._{at} IS NOT NULL")
    gaps = _words_where(shape, lambda _, c: f"array_contains(gap_names, {change.literal(c.name)})")
    updated = f"kind = '{change.UPDATE}' AND before IS NOT NULL AND after IS NOT NULL"
    inserted = f"kind = '{change.INSERT}' AND after IS NOT NULL"
    return told.select(
        "mask",
        "kind",
        F.expr(f"if({updated}, {differing}, NULL)").alias("differing"),
        F.expr(f"if({inserted}, {known}, NULL)").alias("known"),
        F.expr(f"if(size(gap_names) > 0, {gaps}, NULL)").alias("gaps"),
    )


def _words_where(shape: Contract, condition: Callable[[int, ContractColumn], str]) -> str:
    """SQL text of the words of the columns of which the condition (of place and column) holds."""
    by_word = [["0L"] for _ in masks.bits_of(c.ordinal for c in shape.columns)]
    for at, column in enumerate(shape.columns):
        word, bit = divmod(column.ordinal - 1, masks.WORD_BITS)
        by_word[word].append(f"if({condition(at, column)}, {1 << bit}L, 0L)")
    return f"array({', '.join(' | '.join(bits) for bits in by_word)})"


def evidence(told: DataFrame, shape: Contract, rules: MaskRules) -> DataFrame:
    """One row: `table`, the counts of `Evidence`, and a record of some; from a frame as `facts` gives it."""
    highest = _highest(shape, rules)
    read = told.where(F.col("mask").isNotNull())
    for order in ORDERS:
        read = read.withColumns(
            {
                order: masks.words(F.col("mask"), highest, order),
                f"{order}_top": masks.highest_set(F.col("mask"), order),
            }
        )
    sets = _Sets.of(shape, rules)
    said = read.withColumns({f"{o}_obeys": F.expr(_obeys(o, sets, highest)) for o in ORDERS}).withColumn(
        "says", F.expr(_says(sets))
    )
    record = F.struct("kind", masks.to_hex(F.col("mask")).alias("mask"), "differing")
    counted = said.agg(
        *(F.count_if(F.col("says") == name).alias(name) for name in COUNTS),
        *(F.min(F.when(F.col("says") == name, record)).alias(f"{name}_record") for name in _SHOWN),
    )
    examples = F.struct(*(F.col(f"{name}_record").alias(name) for name in _SHOWN))
    return counted.select(F.lit(shape.table).alias("table"), *COUNTS, examples.alias("examples"))


def _highest(shape: Contract, rules: MaskRules) -> int:
    return max((*(c.ordinal for c in shape.columns), *rules.header_ordinals))


class _Sets(NamedTuple):
    """The known sets of columns, as words."""

    headers: Sequence[int]
    every: Sequence[int]
    # Those of which images and masks tell.
    sure: Sequence[int]
    # None where a delete sets every column.
    key: Sequence[int] | None

    @classmethod
    def of(cls, shape: Contract, rules: MaskRules) -> _Sets:
        def words(ordinals: Sequence[int]) -> Sequence[int]:
            return masks.bits_of(ordinals, _highest(shape, rules))

        sure = [c.ordinal for c in shape.columns if not (c.name in rules.excluded or _is_unsure(c))]
        return cls(
            headers=words(rules.header_ordinals),
            every=words([c.ordinal for c in shape.columns]),
            sure=words(sure),
            key=words([c.ordinal for c in shape.key]) if rules.delete_sets == "key" else None,
        )


def _is_unsure(column: ContractColumn) -> bool:
    return column.computed or column.sql_type.is_large


def _obeys(order: ByteOrder, sets: _Sets, highest: int) -> str:
    """SQL text: does the record obey every rule that applies to it, read in this order?"""

    def all_words(condition: Callable[[int], str], of_interest: Sequence[int]) -> str:
        return " AND ".join(("true", *(condition(w) for w, bits in enumerate(of_interest) if bits)))

    def found(word: int) -> str:
        return f"get({order}, {word})"

    def care(word: int) -> str:
        return f"{sets.sure[word]}L & ~coalesce(get(gaps, {word}), 0L)"

    def exactly(word: int) -> str:
        return f"((({found(word)} ^ get(differing, {word})) & {care(word)}) = 0)"

    def at_least_known(word: int) -> str:
        return f"((get(known, {word}) & ~{found(word)} & {care(word)}) = 0)"

    def only_key(key: Sequence[int]) -> Callable[[int], str]:
        return lambda word: f"(({found(word)} & {sets.every[word]}L) = {key[word]}L)"

    def all_sure(word: int) -> str:
        return f"(({found(word)} & {sets.sure[word]}L) = {sets.sure[word]}L)"

    not_beyond = f"{order}_top <= {highest}"
    if sets.key is None:
        deleted = f"({all_words(all_sure, sets.sure)})"
        # A wider mask is of a table with more columns than its rows show; SQL Server trims no zero bytes.
        not_beyond = f"({not_beyond} OR length(mask) > {masks.width(highest)})"
    elif any(sets.key):
        deleted = f"({not_beyond} AND {all_words(only_key(sets.key), sets.every)})"
    else:
        deleted = "true"
    headers_clear = all_words(lambda w: f"(({found(w)} & {sets.headers[w]}L) = 0)", sets.headers)
    return f"""{headers_clear} AND CASE kind
        WHEN '{change.INSERT}' THEN known IS NULL OR ({all_words(at_least_known, sets.sure)})
        WHEN '{change.DELETE}' THEN {deleted}
        WHEN '{change.UPDATE}' THEN
            {not_beyond} AND (differing IS NULL OR {order}_top = 0 OR ({all_words(exactly, sets.sure)}))
        ELSE true END"""


def _says(sets: _Sets) -> str:
    """SQL text: the count that the record goes into."""
    tested = f"kind = '{change.DELETE}' OR known IS NOT NULL OR (differing IS NOT NULL AND big_top > 0)"
    if any(sets.headers):
        tested = "true"
    return f"""CASE
        WHEN big_obeys AND NOT little_obeys THEN 'big'
        WHEN little_obeys AND NOT big_obeys THEN 'little'
        WHEN NOT big_obeys THEN 'neither'
        WHEN big != little THEN 'undecided'
        WHEN {tested} THEN 'either'
        ELSE 'untested' END"""


def counted(row: Row, shape: Contract) -> Evidence:
    """From the row that `evidence` gives for that shape."""
    shown = {name: row["examples"][name] for name in _SHOWN}
    examples = {name: _in_words(record, shape) for name, record in shown.items() if record is not None}
    return Evidence(**{name: row[name] for name in COUNTS}, examples=examples)


def _in_words(record: Row, shape: Contract) -> str:
    text = f"{record['kind']} with mask 0x{record['mask']}"
    if record["differing"] is None:
        return text
    differ = [c.name for c in shape.columns if masks.is_in(c.ordinal, record["differing"])]
    return f"{text}, the images differ in {', '.join(differ) or 'no column'}"
