"""The effects of changes on keys: one per change, two for a change that moves a row to another key.

A truncate names no key: it has an effect on each key that existed before it. The open intervals of history
are effects, too (seeds): new changes continue from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import images
from changeledger.kernels.arrow import (
    BREAK,
    INSTANT,
    NAMES,
    RECORD,
    Bools,
    Bytes,
    Indices,
    column,
    equal,
    row_type,
    table_of,
    valid,
)
from changeledger.kernels.cells import KNOWN, UNAVAILABLE
from changeledger.model import change
from changeledger.model.contract import Contract

# The column that `exploded` adds.
LEAVES: Final = "leaves"

# The origin of an effect: a ledger row; an open interval; only the published position of a snapshot row; only
# a place to rebuild from.
CHANGED, SEED, MARK, FORCED = range(4)


@dataclass(frozen=True)
class Effects:
    """n effects on keys, in any order.

    Images are indices into a pool of cells; -1 is no image. `states` says which cells of an image are
    unknown: n x columns (`kernels.cells`), or None if all are known.
    """

    # The columns of `_schema`.
    rows: pa.Table
    key: Sequence[pa.Array]
    pool: Sequence[pa.Array]
    # `image`: the row as the effect leaves it, or its last state if the effect ends it. `before`: the row as
    # the change found it.
    image: Indices
    before: Indices
    states: Bytes | None
    before_states: Bytes | None
    is_deleted: Bools
    origin: Bytes

    def __len__(self) -> int:
        return len(self.origin)

    def is_a(self, operation: str) -> Bools:
        return equal(column(self.rows, "operation"), operation)

    @cached_property
    def is_update(self) -> Bools:
        return self.is_a(change.UPDATE)

    @cached_property
    def moved_here(self) -> Bools:
        """Whether the effect brings its row from another key."""
        return self.is_update & valid(column(self.rows, "previous_key")) & ~self.is_deleted

    @cached_property
    def arrives(self) -> Bools:
        """Whether the effect puts a row onto the key."""
        return self.moved_here | (self.is_a(change.INSERT) & ~self.is_deleted)

    @cached_property
    def leaves(self) -> Bools:
        """Whether the effect takes its row to another key."""
        return self.is_update & self.is_deleted

    @cached_property
    def goes(self) -> Bools:
        """Whether the effect ends the row of this key only."""
        return self.leaves | self.is_a(change.DELETE)


def exploded(changes: pa.Table) -> pa.Table:
    """Returns ledger rows once for each key that they have an effect on, without truncates.

    `leaves` marks the rows that stand for `previous_key`; the others stand for `key`. All rows of a key must
    share a bucket.
    """
    is_truncate = equal(column(changes, "operation"), change.TRUNCATE)
    of_rows = changes.filter(pa.array(~is_truncate)) if is_truncate.any() else changes
    moved = of_rows.filter(of_rows.column("previous_key").is_valid())
    parts = [
        part.append_column(LEAVES, pa.repeat(pa.scalar(leaves), len(part)))
        for part, leaves in ((of_rows, False), (moved, True))
    ]
    return pa.concat_tables(parts)


def keys_of(rows: pa.Table) -> pa.StructArray:
    """Returns the keys for which exploded ledger rows stand."""
    leaves, keys = column(rows, LEAVES), column(rows, "key")
    sides = zip(column(rows, "previous_key").flatten(), keys.flatten(), strict=True)
    cells = [pc.if_else(leaves, old, new) for old, new in sides]
    return pa.StructArray.from_arrays(cells, fields=list(keys.type))


def _schema(contract: Contract) -> pa.Schema:
    """The columns that an effect carries unchanged."""
    return pa.schema(
        [
            ("change_id", pa.string()), ("paired_change_id", pa.string()), ("operation", pa.string()),
            ("sort_key", pa.binary()), ("commit_lsn", pa.binary()), ("committed_at", INSTANT),
            ("transaction_id", pa.string()),
            # The earliest time at which its interval begins.
            ("valid_from", INSTANT), ("previous_key", row_type(contract.key)), ("source_position", RECORD),
            ("flags", NAMES), ("break", BREAK),
        ]
    )  # fmt: skip


def of_changes(exploded_rows: pa.Table, contract: Contract) -> Effects:
    """Returns the effects of exploded ledger rows.

    The image of a delete, or of a change whose row leaves its key, is the row that it found.
    """
    rows, size = exploded_rows, len(exploded_rows)
    leaves = column(rows, LEAVES).to_numpy(zero_copy_only=False)
    sides = [rows.column(name) for name in ("after", "before")]
    nothing = pa.array([], row_type(contract.columns))
    chunks = [chunk.flatten() for side in sides for chunk in (nothing, *side.chunks)]
    is_deleted = equal(column(rows, "operation"), change.DELETE) | leaves
    after_states, before_states = (
        images.states(column(rows, name), contract.names)
        for name in ("after_unknown_columns", "before_unknown_columns")
    )
    after_at, before_at = _places(sides[0], 0), _places(sides[1], size)
    previous = pc.if_else(pa.array(leaves), None, column(rows, "previous_key"))
    columns = {name: rows.column(name) for name in _schema(contract).names if name in rows.column_names}
    columns |= {"valid_from": columns["committed_at"], "previous_key": previous}
    return Effects(
        rows=table_of(columns, _schema(contract)),
        key=keys_of(rows).flatten(),
        pool=[pa.concat_arrays(list(cells)) for cells in zip(*chunks, strict=True)],
        image=np.where(is_deleted, before_at, after_at),
        before=before_at,
        states=_chosen(is_deleted, before_states, after_states),
        before_states=before_states,
        is_deleted=is_deleted,
        origin=np.full(size, CHANGED, np.uint8),
    )


def _places(image: pa.ChunkedArray, begin: int) -> Indices:
    """Returns the indices of the rows' images in a pool that has them from `begin` on; -1 for no image."""
    at = np.arange(begin, begin + len(image))
    return np.where(image.is_valid().to_numpy(), at, -1)


def _chosen(where: Bools, chosen: Bytes | None, other: Bytes | None) -> Bytes | None:
    if chosen is None and other is None:
        return None
    sides = [np.uint8(KNOWN) if states is None else states for states in (chosen, other)]
    return np.where(where[:, None], *sides)


def of_intervals(opened: pa.Table, contract: Contract) -> Effects:
    """Returns seeds: the open intervals of history. Their breaks were judged when they were written."""
    size = len(opened)
    cells = {c.name: column(opened, c.name) for c in contract.columns}
    names = [name for name in _schema(contract).names if f"_{name}" in opened.column_names]
    return Effects(
        rows=table_of({name: column(opened, f"_{name}") for name in names}, _schema(contract)),
        key=[cells[c.name] for c in contract.key],
        pool=list(cells.values()),
        image=np.arange(size),
        before=np.full(size, -1),
        states=images.states(column(opened, "_unknown_columns"), contract.names),
        before_states=None,
        is_deleted=column(opened, "_is_deleted").to_numpy(zero_copy_only=False),
        origin=np.full(size, SEED, np.uint8),
    )


def of_truncate(truncate: pa.Table, keys: Sequence[pa.Array], contract: Contract) -> Effects:
    """Returns the effects of one truncate on these keys. The rows end with their last known cells."""
    size = len(keys[0])
    row = truncate.take(pa.array(np.zeros(size, np.int64)))
    columns = {name: column(row, name) for name in _schema(contract).names if name in row.column_names}
    columns |= {"valid_from": columns["committed_at"]}
    is_unknown = np.array([UNAVAILABLE if not c.key_position else KNOWN for c in contract.columns], np.uint8)
    rows = table_of(columns, _schema(contract))
    return _without_image(rows, keys, contract, CHANGED, np.tile(is_unknown, (size, 1)))


def of_marks(published: pa.Table, origin: int, contract: Contract) -> Effects:
    """Returns effects for each `key` and `sort_key` of rows that history does not show."""
    rows = table_of({"sort_key": column(published, "sort_key")}, _schema(contract))
    return _without_image(rows, column(published, "key").flatten(), contract, origin, None)


def _without_image(
    rows: pa.Table, key: Sequence[pa.Array], contract: Contract, origin: int, states: Bytes | None
) -> Effects:
    nowhere, kinds = np.full(len(rows), -1), row_type(contract.columns)
    return Effects(
        rows=rows,
        key=key,
        pool=[pa.array([], field.type) for field in kinds],
        image=nowhere,
        before=nowhere,
        states=states,
        before_states=None,
        is_deleted=np.full(len(rows), origin == CHANGED),
        origin=np.full(len(rows), origin, np.uint8),
    )


def together(parts: Sequence[Effects]) -> Effects:
    """Concatenates the effects of all parts."""
    if len(parts) == 1:
        return parts[0]
    sizes = [len(part.pool[0]) for part in parts]
    shifts = np.concatenate(([0], np.cumsum(sizes[:-1])))

    def shifted(places: Sequence[Indices]) -> Indices:
        indices: Indices = np.concatenate(
            [np.where(at < 0, -1, at + shift) for at, shift in zip(places, shifts, strict=True)]
        )
        return indices

    return Effects(
        rows=pa.concat_tables([part.rows for part in parts]).combine_chunks(),
        key=[pa.concat_arrays(list(cells)) for cells in zip(*(part.key for part in parts), strict=True)],
        pool=[pa.concat_arrays(list(cells)) for cells in zip(*(part.pool for part in parts), strict=True)],
        image=shifted([part.image for part in parts]),
        before=shifted([part.before for part in parts]),
        states=_stacked([part.states for part in parts], parts),
        before_states=_stacked([part.before_states for part in parts], parts),
        is_deleted=np.concatenate([part.is_deleted for part in parts]),
        origin=np.concatenate([part.origin for part in parts]),
    )


def _stacked(states_of_parts: Sequence[Bytes | None], parts: Sequence[Effects]) -> Bytes | None:
    if all(states is None for states in states_of_parts):
        return None
    width = len(parts[0].pool)
    return np.vstack(
        [
            np.zeros((len(part), width), np.uint8) if states is None else states
            for states, part in zip(states_of_parts, parts, strict=True)
        ]
    )
