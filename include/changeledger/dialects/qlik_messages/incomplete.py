"""Finds messages whose row lacks a column that they say it has.

Qlik writes a member for each column, null if it has no value (its page "Data messages"). A missing member was
removed after Qlik, for example by a tool that leaves out members that are null (zendesk/maxwell#708). If the
masks say that the column is in the message, or was changed, or if the before row has it, it may be NULL. Then
keeping the last known value would be wrong.
"""

from __future__ import annotations

from itertools import compress

import numpy as np

from changeledger.dialects.messages.problems import Problem, incomplete
from changeledger.dialects.plan import TablePlan
from changeledger.dialects.qlik_messages.masks import Masks
from changeledger.dialects.qlik_messages.sides import Side
from changeledger.kernels.arrow import Bools
from changeledger.kernels.cells import NOT_CAPTURED


def cells(before: Side, after: Side, of_changes: Masks, of_columns: Masks, plan: TablePlan) -> Bools:
    """Returns (n x columns) the cells that the rows lack. Both sides are as written (`sides.side`)."""
    large = np.array(plan.writer_schema.large, np.bool_)
    # The before row has a null for a large object, whatever the row has.
    is_before = before.image.present[:, None] & (before.states != NOT_CAPTURED) & ~large
    is_said = of_columns.columns | ((of_changes.columns | is_before) & ~of_columns.absent)
    lacks: Bools = after.image.present[:, None] & (after.states == NOT_CAPTURED) & is_said & ~plan.is_computed
    return lacks


def problem(lacks: Bools, plan: TablePlan) -> Problem:
    """Returns the problem of one event. `lacks` has a flag for each column."""
    says = (
        "a mask or `beforeData` shows to exist: each is NULL or was not sent, and the message does not "
        "say which. Make every tool downstream of Qlik write all members, also those that are null"
    )
    return incomplete("`data`", compress(plan.writer_schema.names, lacks), says)
