"""Decides which unmatched effects are out of order, which differ, and which are missing or extra.

A lost effect shifts the numbers of those after it, and so does a doubled one. So unmatched effects are
matched by content, key by key, before the rest counts as different, missing or extra.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.compare import counts
from changeledger.compare.buckets import COUNTS, FAULTS
from changeledger.compare.cells import CellHashes, folded
from changeledger.compare.columns import Columns
from changeledger.compare.counts import AGREEING_IN, ALL_IN, Span, in_spans
from changeledger.compare.effects import Effects, of_table
from changeledger.compare.judging import CLASS_CODES, VERDICT_CODES, Judgement, judged
from changeledger.compare.matching import Pairs, matched, numbered, of_key, paired
from changeledger.compare.reach import Reach
from changeledger.compare.verdicts import (
    CLASSES,
    DIFFERS,
    EQUAL,
    EXPECTED,
    ORDER,
    ORDER_UNKNOWN,
    VERDICTS,
)
from changeledger.kernels import order
from changeledger.kernels.arrow import INSTANT, Indices, batch_of, taken
from changeledger.kernels.images import differs

MISMATCHES: Final = "mismatches"

# The faults that remain after the rematch. `numbers`: indices of differing columns, or -1 for the operation.
MISMATCH_COLUMNS: Final = pa.schema(
    [
        ("verdict", pa.string()),
        ("commit_lsn", pa.binary()),
        # The other feed's place of the effect, if it is another one.
        ("other_lsn", pa.binary()),
        ("committed_at", INSTANT),
        ("numbers", pa.list_(pa.int32())),
        ("change_id", pa.string()),
        ("other_change_id", pa.string()),
    ]
)
OUTPUTS: Final = {COUNTS: counts.SCHEMA, MISMATCHES: MISMATCH_COLUMNS}

UNKNOWN: Final = pa.schema([("columns", pa.list_(pa.bool_()))])


def unknown_columns(batch: pa.RecordBatch, columns: Columns) -> pa.RecordBatch:
    """Returns one row of `UNKNOWN`: the columns with an unknown cell in an effect of `effects.FAULTY`."""
    after = CellHashes.of(batch.column("after"), len(columns.forms))
    unknown = (after.present[:, None] & ~after.known).any(axis=0)
    return batch_of({"columns": [unknown.tolist()]}, UNKNOWN)


@dataclass(frozen=True)
class Rematch:
    """Kernel that gives the final verdicts on the effects of some keys (`effects.FAULTY`).

    `known`: the columns whose cells are known in all effects. `is_ordered`: the positions of the two feeds
    can be compared; if they cannot, no effect is out of order.
    """

    columns: Columns
    known: Sequence[int]
    is_ordered: bool
    reach: Reach
    span: Span

    def __call__(self, tables: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
        effects = of_table(tables[FAULTS], self.columns)
        pairs = self._by_content(effects)
        met = pairs.only(pairs.is_both)
        is_single = ~pairs.is_both
        single = _by_place(effects, np.sort(pairs.some[is_single]))
        judgement = judged(effects, single)
        nowhere = pa.nulls(len(single.other), pa.binary())
        parts = [self._met(effects, met), self._outcome(effects, single, judgement, nowhere)]
        totals = counts.added([table for table, _ in parts])
        findings = pa.concat_tables([table for _, table in parts])
        return {COUNTS: counts.table(totals), MISMATCHES: findings}

    def _by_content(self, effects: Effects) -> Pairs:
        cells = [effects.after.numbers[:, at] for at in self.known]
        said = folded([effects.op.astype(np.int64), *cells], len(effects))
        group = [*of_key(effects), said]
        sequence = [*order.words(effects.place), *order.words(effects.sort_key)]
        number = numbered([*group, effects.side], sequence, len(effects))
        return paired([*group, number], effects.side)

    def _met(self, effects: Effects, pairs: Pairs) -> tuple[pa.Table, pa.Table]:
        """Judges pairs of equal content: out of order if at two places, or in another sequence at one."""
        judgement = judged(effects, pairs)
        verdict, reason = judgement.verdict.copy(), judgement.reason.copy()
        places = [taken(effects.place, rows) for rows in pairs]
        moved = differs(*places)
        if self.is_ordered:
            ranks = _ranks(effects, pairs)
            out_of_order = moved | (ranks[0] != ranks[1])
            verdict[out_of_order], reason[out_of_order] = VERDICT_CODES[ORDER], -1
        else:
            is_equal = verdict == VERDICT_CODES[EQUAL]
            verdict[is_equal], reason[is_equal] = VERDICT_CODES[EXPECTED], CLASS_CODES[ORDER_UNKNOWN]
        elsewhere = taken(places[1], np.where(moved, np.arange(len(moved)), -1))
        judgement = replace(judgement, verdict=verdict, reason=reason)
        return self._outcome(effects, pairs, judgement, elsewhere)

    def _outcome(
        self, effects: Effects, pairs: Pairs, judgement: Judgement, elsewhere: pa.BinaryArray
    ) -> tuple[pa.Table, pa.Table]:
        """Returns counts, and rows of `MISMATCH_COLUMNS`."""
        verdict, is_fault = judgement.verdict, judgement.is_fault
        time = pc.coalesce(*(taken(effects.committed_at, rows) for rows in pairs))
        # Near the ends a feed may have a transaction in part, or not at all.
        stay = ~is_fault | self.reach.is_in_both(time)
        totals = counts.of_words(VERDICTS, verdict[stay]) | counts.of_words(CLASSES, judgement.reason[stay])
        spans = self.span.numbers(time)
        totals |= in_spans(AGREEING_IN, spans, stay & ~is_fault) | in_spans(ALL_IN, spans, stay)
        columns: list[list[int] | None] = [None] * len(verdict)
        for row in np.flatnonzero(judgement.is_a(DIFFERS) & stay).tolist():
            columns[row] = numbers = judgement.differing(row)
            for at in numbers:
                totals[counts.DIFFERS_IN, at] = totals.get((counts.DIFFERS_IN, at), 0) + 1
        rows = pa.table(
            [
                pa.array(VERDICTS).take(pa.array(verdict)),
                taken(effects.place, pairs.some),
                elsewhere,
                time,
                pa.array(columns, pa.list_(pa.int32())),
                *(taken(effects.change_id, side) for side in pairs),
            ],
            schema=MISMATCH_COLUMNS,
        )
        return counts.table(totals), rows.filter(pa.array(is_fault & stay))


def _by_place(effects: Effects, at: Indices) -> Pairs:
    """Matches these effects by place, key, and their number there."""
    pairs = matched(effects.take(at), np.zeros(len(at), np.bool_))
    return Pairs(*(np.where(rows >= 0, at[rows], -1) if len(at) else rows for rows in pairs))


def _ranks(effects: Effects, pairs: Pairs) -> list[Indices]:
    """Returns each side's sequence of the pairs that it has at the same places as the other side."""
    group = [ranks[pairs.reference] for ranks in of_key(effects)]
    for rows in pairs:
        group += order.words(taken(effects.place, rows))
    size = len(pairs.reference)
    return [numbered(group, order.words(taken(effects.sort_key, rows)), size) for rows in pairs]
