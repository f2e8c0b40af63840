"""A first look at two ledgers: at which places both have the same single effect on a key.

In feeds that agree that is nearly everywhere. Only what is left is matched effect by effect (`compare`),
which costs several times as much: here a place and one hash of all that the effect says are what travels.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger.change import literal, quoted
from changeledger.reconcile.compare import PLACE, Columns, Effect, Side, on_keys

# In one sum, how many effects each feed has at a place: the other feed's stand above the first 32 bits.
_OF_THE_OTHER = 1 << 32


def first_look(reference: Side, other: Side, columns: Columns) -> DataFrame:
    """One row per `PLACE` that either feed tells: `alike`, and the earlier `committed_at`.

    Several effects of one feed on a key at one place are not alike here: their order would have to be looked
    at. Without positions (all of a key is one place) a look does not pay.
    """

    def told(side: Side, names: Sequence[str], weight: int) -> DataFrame:
        rows = on_keys(side, columns, names, True, lambda effect: [_said(effect, columns, names)])
        return rows.select(*PLACE, "said", "committed_at", F.lit(weight).alias("weight"))

    both = told(reference, columns.names, 1).unionByName(told(other, columns.other, _OF_THE_OTHER))
    each_once = F.sum("weight") == 1 + _OF_THE_OTHER
    return both.groupBy(*PLACE).agg(
        (each_once & (F.min("said") == F.max("said"))).alias("alike"),
        F.min("committed_at").alias("committed_at"),
    )


def _said(effect: Effect, columns: Columns, names: Sequence[str]) -> Column:
    """bigint: a hash of the operation and of both images, in the forms by which equal values are equal."""
    shown = [
        F.when(known, F.expr(_image(side, columns, names)))
        for side, known in (("before", effect.before), ("after", effect.after))
    ]
    return F.xxhash64(effect.op, *(F.coalesce(image, F.lit(0)) for image in shown)).alias("said")


def _image(side: str, columns: Columns, names: Sequence[str]) -> str:
    """SQL text: NULL without an image.

    Whether a cell is NULL is hashed before it, because a NULL leaves a hash as it was.
    """
    cells, gaps = [], []
    for at, (name, form) in enumerate(zip(names, columns.forms, strict=True)):
        cell = f"{side}.{quoted(name)}"
        cells += [f"{cell} IS NULL", form.value.format(cell)]
        if form.text is not None:
            cells.append(form.text.format(cell))
        gaps.append(f"CASE WHEN map_contains_key({side}_gaps, {literal(name)}) THEN {at} END")
    unknown = f"CASE WHEN {side}_gaps IS NOT NULL THEN xxhash64({', '.join(gaps)}) END"
    return f"CASE WHEN {side} IS NOT NULL THEN xxhash64({', '.join([*cells, unknown])}) END"
