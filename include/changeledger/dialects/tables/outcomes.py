"""Outcomes of decoding raw rows: canonical changes, halves of updates, and rows that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.dialects.messages import message_rows
from changeledger.dialects.messages.message_rows import OUTCOME
from changeledger.dialects.messages.problems import no_value_of
from changeledger.dialects.plan import TablePlan
from changeledger.dialects.tables.rows import OWN, RawRows
from changeledger.kernels import changes, images, json_rows
from changeledger.kernels.arrow import RECORD, Bools, Bytes, by_name, places, valid
from changeledger.kernels.cells import Cells
from changeledger.kernels.changes import Changes
from changeledger.kernels.images import Image
from changeledger.model import change
from changeledger.model.contract import Contract

# The part of a change that a row holds: an update comes as two rows.
WHOLE, BEFORE, AFTER = "whole", "before", "after"
_LONGEST = 500
# Columns that match the two rows of an update. `pair_key` is equal in both, and NULL in a whole change.
PAIR = (("part", pa.string()), ("pair_key", pa.binary()))


def decoded_schema(contract: Contract) -> pa.Schema:
    """Decoded rows: one per raw row, in the order of the raw batch."""
    return pa.schema([*message_rows.decoded_schema(contract), *PAIR])


class Problems:
    """Reasons why rows cannot be read, with details. Each row keeps the first one that is added."""

    def __init__(self, rows: int) -> None:
        self.bad: Bools = np.zeros(rows, np.bool_)
        self._problems: dict[int, tuple[str, str]] = {}

    def add(self, condition: Bools, reason: str, detail: str | Callable[[int], str]) -> None:
        """Adds a reason to the rows of `condition`. `detail` is a text, or a function of the row."""
        for row in np.flatnonzero(condition & ~self.bad):
            words = detail if isinstance(detail, str) else detail(int(row))
            self._problems[int(row)] = reason, words[:_LONGEST]
        self.bad |= condition

    def columns(self) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Returns `disposition`, `reason` and `detail` of all rows."""
        rows = np.flatnonzero(self.bad)
        where = places(rows, len(self.bad))
        problems = [self._problems[int(row)] for row in rows]
        reasons, details = (pa.array([problem[at] for problem in problems], pa.string()) for at in range(2))
        words = pa.array([change.CHANGE, change.QUARANTINED], pa.string())
        return words.take(pa.array(self.bad.astype(np.int8))), reasons.take(where), details.take(where)


@dataclass(frozen=True)
class Decoded:
    """What a dialect has decoded from n rows. Values of rows that have a problem are ignored."""

    changes: Changes
    # Rows that are halves of updates: before rows, and after rows.
    is_before: Bools
    is_after: Bools
    pair_key: pa.BinaryArray


def decoded_rows(
    raw: pa.RecordBatch, decoded: Decoded, problems: Problems, plan: TablePlan
) -> pa.RecordBatch:
    """Builds `decoded_schema` rows. Whole changes are complete, halves of updates await `pairs.joined`."""
    if plan.masks_unreadable is not None:
        # Which columns the changes changed is unknown.
        assert decoded.changes.mask is not None, "both dialects of change tables have masks"
        problems.add(valid(decoded.changes.mask), "mask_order_contradicted", plan.masks_unreadable)
    rows = RawRows.of(raw)
    good = np.flatnonzero(~problems.bad)
    is_half = (decoded.is_before | decoded.is_after) & ~problems.bad
    canonical = decoded.changes if len(good) == rows.size else changes.taken(decoded.changes, good)
    ledger = changes.ledger_rows(
        canonical, plan.contract, plan.feed.feed, plan.feed.dialect, plan.window_id, ~is_half[good]
    )
    schema = decoded_schema(plan.contract)
    columns = message_rows.spread(ledger.columns, good, rows.size)
    columns[schema.get_field_index("source_position")] = raw.column("source_position").cast(RECORD)
    parts = pa.array([WHOLE, BEFORE, AFTER], pa.string())
    part = parts.take(
        pa.array(np.where(is_half, decoded.is_before + 2 * decoded.is_after, 0).astype(np.int8))
    )
    pair_key = (
        decoded.pair_key
        if is_half.all()
        else decoded.pair_key.take(pa.array(np.arange(rows.size, dtype=np.int32), mask=~is_half))
    )
    outcome = [*problems.columns(), *as_they_came(rows, problems.bad | is_half)]
    return pa.RecordBatch.from_arrays([*columns, *outcome, part, pair_key], schema=schema)


def side(cells: Sequence[pa.Array], present: Bools, states: Bytes, plan: TablePlan) -> Image:
    """Builds the image of the rows in `present`, in the contract's columns; other rows have NULL in it."""
    if not present.all():
        is_present = pa.array(present)
        cells = [pc.if_else(is_present, cell, pa.scalar(None, cell.type)) for cell in cells]
    image = Image(present, cells, states if states.any() else None)
    return images.fitted(image, plan.writer_schema, plan.contract)


def add_null_keys(
    problems: Problems, cells: Sequence[Cells], plan: TablePlan, need_key: Bools | bool = True
) -> None:
    """Adds those rows of `need_key` in which a column of the key is NULL."""
    for column, column_cells in zip(plan.writer_schema.columns, cells, strict=True):
        if column.key_position:
            has_none = ~valid(column_cells.values) & need_key
            problems.add(has_none, "null_key", "a column of the key is NULL")


def add_misfits(problems: Problems, cells: Sequence[Cells], plan: TablePlan) -> None:
    """Adds the rows that have a value not of its column's type."""
    columns = plan.writer_schema.columns
    unfit = [
        (column, column_cells.unfit)
        for column, column_cells in zip(columns, cells, strict=True)
        if column_cells.unfit is not None
    ]
    if unfit:
        problems.add(
            np.logical_or.reduce([flags for _, flags in unfit]),
            "value_does_not_fit",
            lambda row: no_value_of(column for column, flags in unfit if flags[row]),
        )


def as_they_came(rows: RawRows, wanted: Bools) -> list[pa.Array]:
    """Returns `raw_key`, `raw_value` and `raw_headers`.

    `raw_value` has the wanted rows as JSON, which the quarantine shows; all else is NULL.
    """
    at = np.flatnonzero(wanted)
    value = pa.nulls(rows.size, pa.binary())
    if len(at):
        some = {name: values.take(pa.array(at)) for name, values in rows.columns.items()}
        value = json_rows.rows(some, len(at)).cast(pa.binary()).take(places(at, rows.size))
    kinds = dict(OUTCOME)
    return [pa.nulls(rows.size, kinds["raw_key"]), value, pa.nulls(rows.size, kinds["raw_headers"])]


def refused(raw: pa.RecordBatch, why: str) -> pa.RecordBatch:
    """Quarantines rows of a change table whose columns the contract rules out (`message_rows.UNCHANGED`)."""
    columns = {name: values for name, values in by_name(raw).items() if name not in OWN[:2]}
    size = raw.num_rows
    problems, everything = Problems(size), np.ones(size, np.bool_)
    problems.add(everything, change.INCOMPATIBLE_SHAPE, why)
    outcome = [*problems.columns(), *as_they_came(RawRows(size, columns, {}), everything)]
    return pa.RecordBatch.from_arrays(
        [raw.column("source_position"), *outcome], schema=message_rows.UNCHANGED
    )
