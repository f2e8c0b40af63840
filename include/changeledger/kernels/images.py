"""Row images: typed cells, each known, NULL, or a gap (`cells.UNAVAILABLE`, `cells.NOT_CAPTURED`).

A gap's cell is NULL and its state is in the map `<side>_unknown_columns` beside the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.arrow import Bools, Bytes, arrow_type, flags_of, named_where, row_type, valid
from changeledger.kernels.cells import KNOWN, NOT_CAPTURED, UNAVAILABLE
from changeledger.model import change
from changeledger.model.contract import Column, Contract

_STATES = pa.array([None, change.UNAVAILABLE, change.NOT_CAPTURED], pa.string())


@dataclass(frozen=True)
class Image:
    """One side of n changes. `cells`: one array per column, NULL without an image. `states`: n x columns."""

    present: Bools
    cells: Sequence[pa.Array]
    # None if no cell is a gap.
    states: Bytes | None

    def only(self, rows: Bools) -> Image:
        """Returns the images of these rows; all other rows have none."""
        return replace(self, present=self.present & rows)


def struct(image: Image, columns: tuple[Column, ...]) -> pa.StructArray:
    mask = None if image.present.all() else pa.array(~image.present)
    return pa.StructArray.from_arrays(list(image.cells), fields=list(row_type(columns)), mask=mask)


def key(image: Image, contract: Contract) -> list[pa.Array]:
    """Returns the cells of the key's columns, in the key's order."""
    by_name = dict(zip(contract.names, image.cells, strict=True))
    return [by_name[column.name] for column in contract.key]


def keys(before: Image, after: Image, is_delete: Bools, contract: Contract) -> tuple[list[pa.Array], Bools]:
    """Returns the cells of each row's key, and the rows whose two images differ in it.

    A delete has the key of its before image, any other change that of its after image.
    """
    old, new = (key(image, contract) for image in (before, after))
    of_delete, are_others = pa.array(is_delete), np.zeros(len(is_delete), np.bool_)
    for old_cells, new_cells in zip(old, new, strict=True):
        are_others |= differs(old_cells, new_cells)
    return [pc.if_else(of_delete, *cells) for cells in zip(old, new, strict=True)], are_others


def gaps(image: Image, names: Sequence[str]) -> pa.MapArray:
    """Returns map<column, state> of each row's gaps; NULL for a row without gaps."""
    rows = len(image.present)
    states = None if image.states is None else np.where(image.present[:, None], image.states, KNOWN)
    if states is None or not states.any():
        return pa.nulls(rows, pa.map_(pa.string(), pa.string()))
    row, column = np.nonzero(states)
    counts = np.bincount(row, minlength=rows)
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    keys = pa.array(list(names), pa.string()).take(pa.array(column, pa.int32()))
    items = _STATES.take(pa.array(states[row, column], pa.uint8()))
    # A NULL offset gives a NULL map.
    some = pa.array(offsets, mask=np.concatenate((counts == 0, [False])))
    return pa.MapArray.from_arrays(some, keys, items)


def states(gaps: pa.MapArray, names: Sequence[str]) -> Bytes | None:
    """Inverse of `gaps`: n x columns of states, or None if all cells are known."""
    rows, known = len(gaps), valid(gaps)
    if not known.any():
        return None
    gaps = pc.fill_null(gaps, pa.scalar([], gaps.type)) if not known.all() else gaps
    offsets = np.frombuffer(gaps.buffers()[1], np.int32)[gaps.offset : gaps.offset + rows + 1]
    row = np.repeat(np.arange(rows), np.diff(offsets))
    inside = slice(offsets[0], offsets[-1])
    columns = pc.index_in(gaps.keys, value_set=pa.array(list(names), pa.string())).fill_null(-1)
    column = columns.to_numpy(zero_copy_only=False)[inside]
    state = pc.index_in(gaps.items, value_set=_STATES).to_numpy(zero_copy_only=False)[inside]
    cell_states = np.zeros((rows, len(names)), np.uint8)
    of_contract = column >= 0
    cell_states[row[of_contract], column[of_contract]] = state[of_contract]
    return cell_states


def differs(cells: pa.Array, other: pa.Array) -> Bools:
    """NOT (cells <=> other): two NULLs are equal; so are 0 and -0."""
    known = valid(cells), valid(other)
    different: Bools = flags_of(pc.not_equal(cells, other)) | (known[0] != known[1])
    return different


def has_value(image: Image, columns: Sequence[int]) -> Bools:
    """n x `columns` (indices): the cells that are neither NULL nor a gap."""
    return np.column_stack([valid(image.cells[at]) for at in columns])


def without_nulls(image: Image, columns: Sequence[int], doubtful: Bools | bool = True) -> Image:
    """Marks NULLs among the doubtful cells (n x `columns`) as unavailable."""
    if not columns:
        return image
    empty = doubtful & image.present[:, None] & ~has_value(image, columns)
    if not empty.any():
        return image
    shape = len(image.present), len(image.cells)
    states = np.zeros(shape, np.uint8) if image.states is None else image.states.copy()
    of_columns = states[:, columns]
    states[:, columns] = np.where(empty & (of_columns == KNOWN), UNAVAILABLE, of_columns)
    return replace(image, states=states)


def known_in_both(before: Image, after: Image) -> Bools:
    """n x columns: the cells that are a gap in neither image."""
    known = np.ones((len(before.present), len(before.cells)), np.bool_)
    for states in (before.states, after.states):
        if states is not None:
            known &= states == KNOWN
    return known


def differing(before: Image, after: Image) -> Bools:
    """n x columns: the cells that are known in both images and differ; none in a row without both images."""
    different = known_in_both(before, after) & (before.present & after.present)[:, None]
    for at, (old, new) in enumerate(zip(before.cells, after.cells, strict=True)):
        different[:, at] &= differs(old, new)
    return different


def changed(before: Image, after: Image, names: Sequence[str]) -> pa.ListArray:
    """Returns array<string> of the columns that are known in both images and differ.

    NULL if an image is missing, or if no column is known to differ but a gap may hide one that does.
    """
    different, both = differing(before, after), before.present & after.present
    is_hidden = may_hide(before.states, after.states, len(both)) & ~different.any(axis=1)
    return named_where(different, names, both & ~is_hidden)


def may_hide(before: Bytes | None, after: Bytes | None, rows: int) -> Bools:
    """n: whether the images' states leave a cell that may have changed and is known in the after image only.

    A cell that is a gap in both images did not change, or is not captured.
    """
    if before is None:
        return np.zeros(rows, np.bool_)
    is_new = before != KNOWN if after is None else (before != KNOWN) & (after == KNOWN)
    return np.asarray(is_new.any(axis=1))


def fitted(image: Image, written: Contract, contract: Contract) -> Image:
    """Converts an image from the writer's columns to the contract's.

    Columns that the writer lacks become gaps (not captured). So do columns that are computed in either
    contract, whatever is written for them. Narrower types become the contract's.
    """
    columns = [[(c.name, c.spark_type) for c in schema.columns] for schema in (written, contract)]
    computed = written.computed | contract.computed
    if columns[0] == columns[1] and not computed:
        return image
    indices = {c.name.lower(): at for at, c in enumerate(written.columns) if c.name.lower() not in computed}
    rows = len(image.present)
    cells: list[pa.Array] = []
    states = np.zeros((rows, len(contract.columns)), np.uint8)
    for at, column in enumerate(contract.columns):
        kind, at_source = arrow_type(column.spark_type), indices.get(column.name.lower())
        if at_source is None:
            cells.append(pa.nulls(rows, kind))
            states[:, at] = NOT_CAPTURED
            continue
        cell = image.cells[at_source]
        cells.append(cell if cell.type == kind else pc.cast(cell, kind))
        if image.states is not None:
            states[:, at] = image.states[:, at_source]
    return Image(image.present, cells, states if states.any() else None)


def fitted_key(cells: Sequence[pa.Array], columns: Sequence[Column], contract: Contract) -> list[pa.Array]:
    """Returns the cells of the contract's key, in its types, from `cells` of the written key `columns`."""
    by_name = {c.name.lower(): cell for c, cell in zip(columns, cells, strict=True)}
    kinds = [field.type for field in row_type(contract.key)]
    key_cells = [by_name[column.name.lower()] for column in contract.key]
    return [c if c.type == kind else pc.cast(c, kind) for c, kind in zip(key_cells, kinds, strict=True)]


def all_fitted(
    before: Image, after: Image, key_cells: list[pa.Array], written: Contract, contract: Contract
) -> tuple[Image, Image, list[pa.Array]]:
    """Converts both images and the key's cells to the columns of the contract."""
    before, after = (fitted(image, written, contract) for image in (before, after))
    return before, after, fitted_key(key_cells, written.key, contract)
