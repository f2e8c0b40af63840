"""Ledgers in memory, compared without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import BooleanExpression

from changeledger.compare.counts import Counts
from changeledger.compare.effects import OTHER, REFERENCE
from changeledger.compare.positions import COMMIT, Positions
from changeledger.compare.reach import Reach
from changeledger.kernels.in_memory import InMemory
from changeledger.kernels.rows import Rows
from changeledger.model.contract import Contract
from changeledger.stages.comparison.matching import Matching, Method, Side

# Compares by the log's positions, or by keys and their order only.
BY_POSITION = Method(Reach(), Positions(COMMIT, True, 1, 1))
BY_KEY = Method(Reach())

NAMED = {"comparison_id": "c", "database": "d", "table": "t", "reference": "one", "feed": "other"}


class Compared(NamedTuple):
    counts: Counts
    # Rows of `findings.FINDINGS`.
    findings: list[dict[str, Any]]


class Held(NamedTuple):
    """A ledger with the interface of `Stored`."""

    table: pa.Table

    def rows(self, names: Sequence[str], where: BooleanExpression | None = None) -> Rows:
        assert where is None
        return InMemory(self.table.select(list(names)))

    def between(self, names: Sequence[str], lsns: tuple[bytes, bytes]) -> Rows:
        at = self.table.column("commit_lsn")
        is_within = pc.and_(pc.greater_equal(at, lsns[0]), pc.less(at, lsns[1]))
        return InMemory(self.table.filter(is_within).select(list(names)))

    def among(self, names: Sequence[str], column: str, values: Rows) -> Rows:
        wanted = pc.unique(values.collected().column(0))
        return InMemory(self.table.filter(pc.is_in(self.table.column(column), wanted)).select(list(names)))


def side(number: int, ledger: pa.Table, contract: Contract, reach: Reach) -> Side:
    return Side(number, Held(ledger), contract, reach, None)


def compared(
    reference: tuple[pa.Table, Contract], other: tuple[pa.Table, Contract], method: Method = BY_POSITION
) -> Compared:
    sides = (side(REFERENCE, *reference, method.reach), side(OTHER, *other, method.reach))
    matching = Matching.of(*sides, method, "a test")
    counts, wrong = matching.counted()
    if wrong is None:
        return Compared(counts, [])
    findings = matching.explained(wrong, NAMED)
    return Compared(counts, findings.collected().to_pylist())
