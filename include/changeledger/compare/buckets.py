"""The steps of a comparison, each on a bucket of effects.

`effects.KEY` decides which effects share a bucket; for the prefilter `effects.PLACE` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from changeledger.compare import counts
from changeledger.compare.cells import Numbers
from changeledger.compare.columns import Columns
from changeledger.compare.counts import AGREEING_IN, ALL_IN, Span, in_spans
from changeledger.compare.effects import FAULTY, SAID, of_table
from changeledger.compare.judging import met
from changeledger.compare.matching import are_among, joined_in_transaction
from changeledger.compare.reach import are_apart
from changeledger.compare.verdicts import AGREEING, EQUAL
from changeledger.kernels import order
from changeledger.kernels.arrow import column

# Inputs: hashes of effects (`effects.SAID`), effects, and the only places to look at.
SAYS: Final = "says"
EFFECTS: Final = "effects"
WITHIN: Final = "within"
# Outputs: `counts.SCHEMA`; places whose effects are not alike; effects of pairs with a fault.
COUNTS: Final = "counts"
UNLIKE: Final = "unlike"
FAULTS: Final = "faults"

PLACES: Final = pa.schema(
    [field for field in SAID if field.name in {"side", "place", "position", "key_1", "key_2"}]
)


def prefiltered(tables: Mapping[str, pa.Table], span: Span) -> Mapping[str, pa.Table]:
    """Finds the places at which both feeds have the same single effect on a key.

    In feeds that agree, nearly all places are such. Several effects of one feed on a key at one place count
    as not alike, because their order would have to be compared. Without positions (a key is one place) this
    step does not pay off.
    """
    rows = tables[SAYS]
    size = len(rows)
    keys: list[Numbers] = [column(rows, name).to_numpy() for name in ("key_1", "key_2")]
    side, says = (column(rows, name).to_numpy() for name in ("side", "said"))
    group = [*keys, *order.words(column(rows, "place"))]
    at = order.by([*group, side], size)
    first = order.begins([ranks[at] for ranks in group], size)
    starts = np.flatnonzero(first)
    leading = at[starts]
    following = at[np.minimum(starts + 1, max(size - 1, 0))]
    is_pair = np.diff(np.append(starts, size)) == 2
    alike = is_pair & (side[leading] != side[following]) & (says[leading] == says[following])
    times = column(rows, "committed_at")
    alike &= ~are_apart(times, leading, following)
    in_span = span.numbers(times)
    spans = in_span[leading], in_span[following]
    # The earlier time if both are known, else the known one.
    number = np.where(np.minimum(*spans) < 0, np.maximum(*spans), np.minimum(*spans))
    unlike = np.sort(at[np.repeat(~alike, np.diff(np.append(starts, size)))])
    totals = {(EQUAL, -1): int(alike.sum()), (counts.UNLIKE, -1): len(unlike)}
    for what in (AGREEING_IN, ALL_IN):
        totals |= in_spans(what, number, alike)
    return {
        COUNTS: counts.table(totals),
        UNLIKE: rows.select(PLACES.names).take(pa.array(unlike)),
    }


def match(tables: Mapping[str, pa.Table], columns: Columns, span: Span) -> Mapping[str, pa.Table]:
    """Matches all effects on some keys, or those at the places WITHIN. Returns counts, and faulty effects."""
    effects = of_table(tables[EFFECTS], columns)
    if WITHIN in tables:
        places = tables[WITHIN]
        keys = [column(places, name).to_numpy() for name in ("key_1", "key_2")]
        effects = effects.take(np.flatnonzero(are_among(effects, column(places, "place"), keys)))
    effects = joined_in_transaction(effects)
    pairs, judgement = met(effects)
    in_span = span.numbers(effects.committed_at)
    number = in_span[pairs.some]
    # A pair counts at the reference's time, or at the other's if the reference has none.
    absent = (number < 0) & pairs.is_both
    number[absent] = in_span[pairs.other[absent]]
    totals = judgement.counted(columns)
    # The other pairs are matched again, and counted there.
    for what in (AGREEING_IN, ALL_IN):
        totals |= in_spans(what, number, judgement.is_a(*AGREEING))
    is_fault = judgement.is_fault
    faulty = np.concatenate([rows[is_fault] for rows in pairs])
    return {
        COUNTS: counts.table(totals),
        FAULTS: effects.take(np.sort(faulty[faulty >= 0])).table(),
    }


MATCHED: Final = {COUNTS: counts.SCHEMA, FAULTS: FAULTY}
PREFILTERED: Final = {COUNTS: counts.SCHEMA, UNLIKE: PLACES}
