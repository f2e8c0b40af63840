"""Judges pairs of effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from changeledger.compare import counts
from changeledger.compare.columns import Columns
from changeledger.compare.effects import Effects
from changeledger.compare.matching import Pairs, group_numbers, matched, of_place, surplus_no_ops
from changeledger.compare.reach import are_apart
from changeledger.compare.verdicts import (
    CLASSES,
    COMMIT_TIME,
    DIFFERS,
    EQUAL,
    EXPECTED,
    EXTRA,
    FAULTS,
    MISSING,
    NO_OP_UPDATE,
    NOT_CAPTURED,
    REPRESENTATION,
    SPLIT_UPDATE,
    VERDICTS,
)
from changeledger.kernels.arrow import Bools, Indices

VERDICT_CODES = {verdict: code for code, verdict in enumerate(VERDICTS)}
# The verdicts in the order in which `judged` tests for them.
_IN_TURN = (EXPECTED, MISSING, EXTRA, DIFFERS, REPRESENTATION, EXPECTED)
CLASS_CODES = {name: code for code, name in enumerate(CLASSES)}

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Judgement:
    """The codes of n pairs' verdicts and classes (`reason`, -1 for none), and the evidence for them."""

    verdict: Codes
    reason: Codes
    is_other_operation: Bools
    # n x columns: values that differ in the before images, and in the after images.
    different: tuple[Bools, Bools]
    # n x columns with texts: the same for texts.
    loose: tuple[Bools, Bools]
    # n x columns: cells that only one side knows.
    unsent: Bools

    def is_a(self, *verdicts: str) -> Bools:
        has_verdict: Bools = np.isin(self.verdict, [VERDICT_CODES[verdict] for verdict in verdicts])
        return has_verdict

    @property
    def is_fault(self) -> Bools:
        return self.is_a(*FAULTS)

    def differing(self, row: int) -> list[int]:
        """Returns the indices of the columns in which a pair differs; -1: the operation."""
        if self.is_other_operation[row]:
            return [-1]
        before, after = (np.flatnonzero(side[row]).tolist() for side in self.different)
        return [*before, *(at for at in after if at not in before)]

    def counted(self, columns: Columns) -> dict[tuple[str, int], int]:
        """Counts pairs by verdict and class, and by column with another text or with unknown cells."""
        totals = counts.of_words(VERDICTS, self.verdict) | counts.of_words(CLASSES, self.reason)
        loose = (self.loose[0] | self.loose[1])[self.is_a(REPRESENTATION)].sum(axis=0)
        totals |= {(counts.REPRESENTED, at): int(n) for at, n in zip(columns.with_texts, loose, strict=True)}
        unsent = self.unsent[self.reason == CLASS_CODES[NOT_CAPTURED]].sum(axis=0)
        return totals | {(counts.NOT_CAPTURED_IN, at): int(n) for at, n in enumerate(unsent)}


def met(effects: Effects) -> tuple[Pairs, Judgement]:
    """Matches and judges the effects of both sides, each once.

    Effects are matched by their number at a place. An update that changes nothing shifts these numbers if
    only one tool writes it. Such updates are kept apart where that leaves fewer faults at their place.
    """
    place = group_numbers(of_place(effects), len(effects))
    surplus = surplus_no_ops(effects, place)
    pairs = matched(effects, np.zeros(len(effects), np.bool_))
    judgement = judged(effects, pairs)
    if not (surplus.any() and judgement.is_fault.any()):
        return pairs, judgement
    others = matched(effects, surplus)
    size = int(place.max()) + 1
    faults, fewer = (
        np.bincount(place[some.some[verdicts.is_fault]], minlength=size)
        for some, verdicts in ((pairs, judgement), (others, judged(effects, others)))
    )
    is_better = fewer < faults
    chosen = [
        some.only(is_better[place[some.some]] == apart) for some, apart in ((pairs, False), (others, True))
    ]
    both = Pairs(*(np.concatenate(rows) for rows in zip(*chosen, strict=True)))
    return both, judged(effects, both)


def judged(effects: Effects, pairs: Pairs) -> Judgement:
    reference, other = pairs
    both = pairs.is_both
    ops = [_of_side(effects.op, rows) for rows in pairs]
    no_op, apart = ([_of_side(flags, rows) for rows in pairs] for flags in (effects.no_op, effects.apart))
    befores, afters, text_befores, text_afters = (
        (cells.take(reference), cells.take(other))
        for cells in (effects.before, effects.after, effects.text_before, effects.text_after)
    )
    other_operation = both & (ops[0] != ops[1])
    different = (befores[0].differing(befores[1]), afters[0].differing(afters[1]))
    loose = (text_befores[0].differing(text_befores[1]), text_afters[0].differing(text_afters[1]))
    unsent = (befores[0].known != befores[1].known) | (afters[0].known != afters[1].known)
    is_unknown = unsent.any(axis=1)
    alone_no_op = ~both & (no_op[0] | no_op[1])
    differs = other_operation | different[0].any(axis=1) | different[1].any(axis=1)
    is_loose = loose[0].any(axis=1) | loose[1].any(axis=1)
    is_split = apart[0] != apart[1]
    is_explained = is_unknown | is_split | are_apart(effects.committed_at, reference, other)
    verdict: Codes = np.select(
        [alone_no_op, other < 0, reference < 0, differs, is_loose, is_explained],
        [np.int64(VERDICT_CODES[v]) for v in _IN_TURN],
        np.int64(VERDICT_CODES[EQUAL]),
    )
    reason: Codes = np.select(
        [verdict != VERDICT_CODES[EXPECTED], alone_no_op, is_unknown, is_split],
        [np.int64(-1), *(np.int64(CLASS_CODES[c]) for c in (NO_OP_UPDATE, NOT_CAPTURED, SPLIT_UPDATE))],
        np.int64(CLASS_CODES[COMMIT_TIME]),
    )
    return Judgement(verdict, reason, other_operation, different, loose, unsent)


def _of_side(values: npt.NDArray[Any], rows: Indices) -> npt.NDArray[Any]:
    """Returns the values of the effects; 0 where a side has none."""
    if not len(values):
        return np.zeros(len(rows), values.dtype)
    side_values: npt.NDArray[Any] = np.where(rows >= 0, values[rows], values.dtype.type(0))
    return side_values
