"""Ledgers in memory, compared without Spark."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from changeledger.compare.counts import Counts
from changeledger.compare.effects import OTHER, REFERENCE
from changeledger.compare.positions import COMMIT, Positions
from changeledger.compare.reach import Reach
from changeledger.kernels.rows import Here
from changeledger.model.contract import Contract
from changeledger.spark.caching import uncached
from changeledger.stages.common.stored import Stored
from changeledger.stages.comparison.ledgers import NEEDED
from changeledger.stages.comparison.matching import Matching, Method, Side

# With the positions of the log, or by keys and their order alone.
BY_POSITION = Method(Reach(), Positions(COMMIT, True, 1, 1))
BY_KEY = Method(Reach())

NAMED = {"comparison_id": "c", "database": "d", "table": "t", "reference": "one", "feed": "other"}


class Compared(NamedTuple):
    counts: Counts
    # Rows of `findings.FINDINGS`.
    findings: list[dict[str, Any]]


def side(number: int, ledger: pa.Table, contract: Contract, reach: Reach) -> Side:
    held = Stored(None, len(ledger), ledger.select(list(NEEDED)))  # type: ignore[arg-type]
    return Side(number, held, contract, reach, None, uncached)


def compared(
    one: tuple[pa.Table, Contract], other: tuple[pa.Table, Contract], method: Method = BY_POSITION
) -> Compared:
    sides = (side(REFERENCE, *one, method.reach), side(OTHER, *other, method.reach))
    matching = Matching.of(*sides, method, "a test")
    counts, wrong = matching.counted()
    if wrong is None:
        return Compared(counts, [])
    found = matching.explained(wrong, NAMED)
    assert isinstance(found, Here)
    return Compared(counts, found.table.to_pylist())
