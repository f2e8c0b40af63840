"""The current rows: those alive, as their open intervals have them."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.arrow import column, row_type
from changeledger.model import change
from changeledger.model.contract import Contract


class Current(NamedTuple):
    """What becomes of the current rows of some keys: a row for each key that is alive, or its row goes."""

    alive: pa.Table
    gone: pa.StructArray


def current(opened: pa.Table, contract: Contract) -> Current:
    """From the open intervals that a window has written (`history.History.opened`)."""
    is_deleted = opened.column("_is_deleted")
    gone = opened.filter(is_deleted)
    keys = pa.StructArray.from_arrays(
        [column(gone, c.name) for c in contract.key], fields=list(row_type(contract.key))
    )
    names = [name for name, _ in change.current_columns(contract)]
    return Current(opened.filter(pc.invert(is_deleted)).select(names), keys)
