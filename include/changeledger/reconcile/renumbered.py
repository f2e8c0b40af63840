"""Finds changes that were delivered again under another number.

A tool may number the changes at a position as it delivers them. The second half of an update that SQL Server
logs as delete and insert then has 2 where the halves follow each other, and 1 where all deletes come first.
Another number is another sort key, so a half that is delivered again in the other order has another id.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import images, order
from changeledger.kernels.arrow import by_name, column, fixed_width, table_of, valid
from changeledger.kernels.hashed import hash_of
from changeledger.model import change
from changeledger.model.contract import Contract

_PLACE: Final = ("commit_lsn", "change_lsn", "operation")
_SIDES: Final = ("before", "after")


def same_changes(new: pa.Table, near: pa.Table, contract: Contract) -> tuple[pa.StringArray, pa.StringArray]:
    """Returns ids of new rows that are the same change as another row, and the ids of those rows.

    Two changes at one position with the same operation, key and images are the same change. Without a key
    they may be two rows. No two rows of `new` and `near` have the same id. A published row goes before new
    ones, and the first delivered before later ones.
    """
    nothing = pa.array([], pa.string())
    if not contract.key or not valid(column(new, "change_lsn")).any():
        return nothing, nothing
    rows = pa.concat_tables([new, *_as_delivered(near)])
    places = [column(rows, name) for name in _PLACE]
    at = order.repeated(hash_of(places))
    at = at[valid(places[0])[at] & valid(places[1])[at]]
    if not (at < len(new)).any():
        return nothing, nothing
    several = rows.take(pa.array(at))
    of_change = order.codes([*(column(several, name) for name in _PLACE), *_row(several, contract)], len(at))
    records = column(several, "source_position")
    in_order = order.by([of_change, at < len(new), *order.of_delivery(records)], len(at))
    first = in_order[order.begun_at(order.begins([of_change[in_order]], len(at)))]
    is_other = (first != in_order) & (at[in_order] < len(new))
    ids = column(several, "change_id")
    return ids.take(pa.array(in_order[is_other])), ids.take(pa.array(first[is_other]))


def _as_delivered(published: pa.Table) -> list[pa.Table]:
    """Returns published changes, those that were joined from two halves as these halves."""
    is_joined = published.column("paired_change_id").is_valid()
    joined = by_name(published.filter(is_joined))
    old_key = pc.if_else(joined["previous_key"].is_valid(), joined["previous_key"], joined["key"])
    halves = (
        {"operation": change.DELETE, "change_id": joined["paired_change_id"], "key": old_key,
         "after": None, "after_unknown_columns": None},
        {"operation": change.INSERT, "before": None, "before_unknown_columns": None},
    )  # fmt: skip
    return [
        published.filter(pc.invert(is_joined)),
        *(table_of(joined | half, published.schema) for half in halves),
    ]


def _row(rows: pa.Table, contract: Contract) -> list[pa.Array]:
    """Returns the cells of the key and of both images, and what is unknown of these."""
    cells: list[pa.Array] = column(rows, "key").flatten()
    for side in _SIDES:
        image = column(rows, side)
        cells += [pa.array(valid(image)), *image.flatten()]
        states = images.states(column(rows, f"{side}_unknown_columns"), contract.names)
        cells += [] if states is None else [fixed_width(states)]
    return cells
