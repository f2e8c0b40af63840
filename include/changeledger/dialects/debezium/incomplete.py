"""Detects after images that lack a column which their message has elsewhere.

A connector writes both images by one schema, with a null for each NULL. If `after` lacks a column that
`before` or the message's own schema block has, something behind the connector removed it, such as a tool that
leaves out null members. The value is then either NULL or not sent; the message does not say which. Keeping
the last known value would be wrong for NULL (zendesk/maxwell#708; debezium/debezium#7974 for a field that is
set to nothing).
"""

from __future__ import annotations

import numpy as np

from changeledger.dialects.debezium.plan import TablePlan
from changeledger.dialects.messages.problems import incomplete
from changeledger.kernels.arrow import Bools
from changeledger.kernels.cells import NOT_CAPTURED
from changeledger.kernels.images import Image
from changeledger.kernels.json_text import Members

_REMEDY = (
    "each is NULL or was not sent, and the message does not say which. Make every tool downstream of "
    "the connector write all members, also those that are null"
)


def rows(before: Image, after: Image, plan: TablePlan) -> Bools:
    """Returns which events have an incomplete after image."""
    if after.states is None:
        return np.zeros(len(after.present), np.bool_)
    is_absent = (after.states == NOT_CAPTURED) & after.present[:, None] & ~plan.is_computed
    is_before = np.broadcast_to(before.present[:, None], is_absent.shape)
    if before.states is not None:
        is_before = is_before & (before.states != NOT_CAPTURED)
    lacks: Bools = (is_absent & (_is_in_block(plan) | is_before)).any(axis=1)
    return lacks


def _is_in_block(plan: TablePlan) -> Bools:
    fields = plan.fields or (None,) * len(plan.writer_schema.columns)
    return np.array([field is not None for field in fields], np.bool_)


def check(before: Members | None, after: Members | None, plan: TablePlan) -> None:
    """Raises Problem if the after image of one event is incomplete (see `rows`)."""
    if after is None:
        return
    columns = zip(plan.writer_schema.names, _is_in_block(plan), strict=True)
    in_block = [name for name, is_one in columns if is_one]
    for what, names in (("the message's schema block", in_block), ("`before`", list(before or ()))):
        lacking = [n for n in names if n not in after and n.lower() not in plan.contract.computed]
        if lacking:
            raise incomplete("`after`", lacking, f"{what} has: {_REMEDY}")
