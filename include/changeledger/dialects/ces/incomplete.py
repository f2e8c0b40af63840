"""Finds events whose current image lacks a column that they say they have.

A message's `cols` are the columns that its images have: all of the table's, or the changed ones and the key.
Published messages of both kinds have exactly these. No page says how NULL is written. So a column of `cols`,
or of the old image, that the current image lacks may be NULL, or was not sent. Keeping the last known value
would be wrong for NULL. A large value that an update did not change is not in SQL Server's log, so a missing
large column says nothing. Neither does one of a type that is never streamed.
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
    """Returns (n x columns) the cells that the current images lack."""
    lacks: Bools = after.image.present[:, None] & (after.states == NOT_CAPTURED) & _counts(plan)
    rows = np.flatnonzero(lacks.any(axis=1)).tolist()
    if not rows:
        return lacks
    is_old = before.image.present[:, None] & (before.states != NOT_CAPTURED)
    in_cols = {cols: _are_in(cols, plan) for cols in {events[row].cols for row in rows}}
    for row in rows:
        lacks[row] &= is_old[row] | in_cols[events[row].cols]
    return lacks


def _counts(plan: TablePlan) -> Bools:
    """Returns which columns are always sent and believed: those that are neither large nor computed."""
    is_large = np.array([c.sql_type.is_large for c in plan.writer_schema.columns], np.bool_)
    return ~is_large & ~plan.is_computed


def _are_in(cols: bytes | None, plan: TablePlan) -> Bools:
    """Returns which columns are in `cols`, so that the images should have them."""
    names = names_in(cols)
    columns = plan.writer_schema.columns
    return np.array([folded(c.name) in names and c.sql_type.base not in _SKIPPED for c in columns], np.bool_)


def problem(lacks: Bools, plan: TablePlan) -> Problem:
    """Returns the problem of one event. `lacks` has a flag for each column."""
    says = "`cols` or the old image has: each is NULL or was not sent, and the message does not say which"
    return incomplete("the current image", compress(plan.writer_schema.names, lacks), says)
