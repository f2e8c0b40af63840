"""Messages whose row lacks a column that they say it has.

Qlik writes a member for each column, null where it has no value (its page "Data messages"). A member that is
not there was taken out behind Qlik, by a tool that leaves out members that are null for one
(zendesk/maxwell#708). Where the masks say that the column is in the message, or was changed, or where the row
before has it, it may be NULL: to keep the last known value would be wrong then.
"""

from __future__ import annotations

from itertools import compress

import numpy as np

from changeledger.dialects.messages.problems import Problem, incomplete
from changeledger.dialects.plan import TablePlan
from changeledger.dialects.qlik_messages.masks import Masks
from changeledger.dialects.qlik_messages.sides import Side, absent_columns
from changeledger.kernels.arrow import Bools
from changeledger.kernels.cells import NOT_CAPTURED


def cells(before: Side, after: Side, of_changes: Masks, of_columns: Masks, plan: TablePlan) -> Bools:
    """n x columns: the cells that the rows lack. Both sides: as they are written (`sides.side`)."""
    large = np.array(plan.writer_schema.large, np.bool_)
    # Of a large object the row before has a null, whatever the row has.
    is_before = before.image.present[:, None] & (before.states != NOT_CAPTURED) & ~large
    is_said = of_columns.columns | ((of_changes.columns | is_before) & ~absent_columns(of_columns))
    lacks: Bools = after.image.present[:, None] & (after.states == NOT_CAPTURED) & is_said & ~plan.is_computed
    return lacks


def problem(lacks: Bools, plan: TablePlan) -> Problem:
    """`lacks`: of one event, column by column."""
    says = (
        "a mask or `beforeData` says is there: whether it is NULL or was not sent is open. Let what stands "
        "behind Qlik write every member, null ones, too"
    )
    return incomplete("`data`", compress(plan.writer_schema.names, lacks), says)
