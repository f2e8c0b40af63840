"""Events whose current image lacks a column that they say they have.

A message's `cols` are the columns that its images have: all of the table's, or the changed ones and the key.
Published messages of both kinds have exactly these. How NULL is written no page says: a column of `cols`, or
of the old image, that the current one lacks may be NULL, or was not sent. To keep the last known value would
be wrong for NULL. A large value that an update did not change is not in SQL Server's log, so its column alone
says nothing. Nor does one of a type that is never streamed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import numpy as np

from changeledger.dialects.ces.columns import names_in
from changeledger.dialects.ces.events import Event
from changeledger.dialects.ces.sides import Side
from changeledger.dialects.messages.problems import Problem, incomplete
from changeledger.dialects.plan import TablePlan
from changeledger.kernels.arrow import Bools
from changeledger.kernels.cells import NOT_CAPTURED
from changeledger.model.column_names import folded

# "Streaming skips columns of these types" (the page "Configure change event streaming", limitations); the
# other types that it names are large ones, or have no counterpart in the lake.
_SKIPPED = {"rowversion", "timestamp", "sql_variant"}


def cells(events: Sequence[Event], before: Side, after: Side, plan: TablePlan) -> Bools:
    """n x columns: the cells that the current images lack."""
    lacks: Bools = after.image.present[:, None] & (after.states == NOT_CAPTURED) & _counts(plan)
    rows = np.flatnonzero(lacks.any(axis=1)).tolist()
    if not rows:
        return lacks
    is_old = before.image.present[:, None] & (before.states != NOT_CAPTURED)
    in_cols: dict[bytes | None, Bools] = {}
    for row in rows:
        cols = events[row].cols
        if cols not in in_cols:
            in_cols[cols] = _are_in(cols, plan)
        lacks[row] &= is_old[row] | in_cols[cols]
    return lacks


def _counts(plan: TablePlan) -> Bools:
    """Which columns are always sent, and believed."""
    is_large = np.array([c.sql_type.is_large for c in plan.writer_schema.columns], np.bool_)
    return ~is_large & ~plan.is_computed


def _are_in(cols: bytes | None, plan: TablePlan) -> Bools:
    """Which columns do `cols` have, so that the images do as well?"""
    names = names_in(None if cols is None else cols.decode())
    columns = plan.writer_schema.columns
    return np.array([folded(c.name) in names and c.sql_type.base not in _SKIPPED for c in columns], np.bool_)


def problem(lacks: Bools, plan: TablePlan) -> Problem:
    """`lacks`: of one event, column by column."""
    says = "`cols` or the old image has: whether it is NULL or was not sent is open"
    return incomplete("the current image", compress(plan.writer_schema.names, lacks), says)
