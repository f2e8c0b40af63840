"""Converts ledger rows to effects: what each change does to keys.

An update of a key removes one row and adds another, just as the delete and the insert that other tools write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.compare.cells import HASHES, CellHashes, Numbers, folded, hashed, of_cells
from changeledger.compare.columns import Columns
from changeledger.kernels import images
from changeledger.kernels.arrow import (
    INSTANT,
    Bools,
    Bytes,
    Indices,
    batch_of,
    by_name,
    column,
    flags_of,
    members,
    table_of,
    taken,
    valid,
)
from changeledger.kernels.hashed import by
from changeledger.model import change
from changeledger.model.contract import Column

# The side of the reference, and of the feed that is compared with it.
REFERENCE: Final = 0
OTHER: Final = 1

INSERTED, UPDATED, DELETED, TRUNCATED = range(4)
_OPERATIONS: Final = (change.INSERT, change.UPDATE, change.DELETE, change.TRUNCATE)

# The ledger columns from which effects are made.
NEEDED: Final = (
    "change_id", "operation", "key", "previous_key", "before", "after", "before_unknown_columns",
    "after_unknown_columns", "changed", "commit_lsn", "sort_key", "committed_at", "transaction_id",
)  # fmt: skip

# `place`: where effects are matched. `position`: the commit LSN as the ledger has it. `transaction`: 0 if the
# place identifies the transaction.
SCHEMA: Final = pa.schema(
    [
        ("side", pa.int32()),
        ("place", pa.binary()),
        ("position", pa.binary()),
        ("is_placed", pa.bool_()),
        ("transaction", pa.int64()),
        ("key_1", pa.int64()),
        ("key_2", pa.int64()),
        ("sort_key", pa.binary()),
        ("op", pa.int32()),
        ("before", HASHES),
        ("after", HASHES),
        ("text_before", HASHES),
        ("text_after", HASHES),
        ("change_id", pa.string()),
        ("committed_at", INSTANT),
        ("no_op", pa.bool_()),
    ]
)
# Bucket keys: equal for effects on one key; equal for effects on one key at one place.
KEY: Final = by("key_1")
PLACE: Final = by("place", "key_1")


@dataclass(frozen=True)
class MakeEffects:
    """Kernel that converts one feed's ledger rows (`NEEDED`).

    Snapshot rows are dropped, because they are not changes in the log.
    """

    side: int
    columns: Columns
    by_position: bool

    @property
    def own(self) -> Sequence[Column]:
        """The compared columns as this feed has them."""
        return self.columns.reference if self.side == REFERENCE else self.columns.other

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = batch.filter(pc.not_equal(batch.column("operation"), change.SNAPSHOT))
        size = rows.num_rows
        moved = valid(rows.column("previous_key"))
        leaving = np.flatnonzero(moved)
        # Effects that leave a key precede effects that arrive at one.
        at = np.concatenate((leaving, np.arange(size)))
        leaves = np.arange(len(at)) < len(leaving)
        comes = moved[at] & ~leaves
        before, text_before = self._images(rows, "before")
        after, text_after = self._images(rows, "after")
        keys = [self._keys(rows.column(name)) for name in ("previous_key", "key")]
        of_key = [np.where(leaves, old[at], new[at]) for old, new in zip(*keys, strict=True)]
        operations = pc.index_in(rows.column("operation"), value_set=pa.array(_OPERATIONS))
        row_operation = operations.to_numpy(zero_copy_only=False)[at]
        op = np.where(comes, INSERTED, np.where(leaves, DELETED, row_operation))
        lsns = taken(rows.column("commit_lsn"), at)
        columns = {
            "side": self.side,
            "place": lsns if self.by_position else b"",
            "position": lsns,
            "is_placed": True,
            "transaction": 0 if self.by_position else _transactions(rows)[at],
            "key_1": of_key[0],
            "key_2": of_key[1],
            "op": op.astype(np.int32),
            "before": before.take(at).only(~comes).array(),
            "after": after.take(at).only(~leaves).array(),
            "text_before": text_before.take(at).array(),
            "text_after": text_after.take(at).array(),
            "no_op": (_no_op(rows) & ~self._changes_cells(before, after))[at],
            **{name: taken(rows.column(name), at) for name in ("sort_key", "change_id", "committed_at")},
        }
        return batch_of(columns, SCHEMA)

    def _changes_cells(self, before: CellHashes, after: CellHashes) -> Bools:
        """Returns which images differ, or may: no mask names a large value, and no before image shows it."""
        differing = before.differing(after)
        large = np.array([(c.origin or c).is_large for c in self.own], np.bool_)
        hidden = ~before.present[:, None] & after.known & large
        changes: Bools = np.asarray((differing | hidden).any(axis=1))
        return changes

    def _keys(self, struct: pa.StructArray) -> list[Numbers]:
        return self.columns.key_hashes(self.own, members(struct), len(struct))

    def _images(self, rows: pa.RecordBatch, side: str) -> tuple[CellHashes, CellHashes]:
        """Returns the hashes of an image's values, and of its texts."""
        struct, names = rows.column(side), [c.name for c in self.own]
        fields, present = members(struct), valid(struct)
        cells, forms, some = [fields[name] for name in names], self.columns.forms, self.columns.with_texts
        states = images.states(rows.column(f"{side}_unknown_columns"), names)
        values = of_cells(cells, present, states, [form.value for form in forms])
        of_texts = None if states is None else states[:, some]
        texts = of_cells([cells[at] for at in some], present, of_texts, [forms[at].text for at in some])
        return values, texts


def _transactions(rows: pa.RecordBatch) -> Numbers:
    """Returns each row's transaction as a hash of its id, or of its commit time if the feed has no id."""
    ids = rows.column("transaction_id")
    times = pc.cast(rows.column("committed_at").cast(pa.int64()), pa.string())
    has_id = pc.fill_null(pc.not_equal(ids, ""), False)
    return hashed([pc.if_else(has_id, ids, times)], rows.num_rows)


def _no_op(rows: pa.RecordBatch) -> Bools:
    """Returns the updates that, by the feed's account, changed nothing.

    A cell of which the feed has only the new value, mostly a large value, may have changed.
    """
    names = [field.name for field in rows.schema.field("after").type]
    before, after = (
        images.states(rows.column(f"{side}_unknown_columns"), names) for side in ("before", "after")
    )
    is_hidden = images.may_hide(before, after, rows.num_rows)
    is_empty = flags_of(pc.equal(pc.list_value_length(rows.column("changed")), 0))
    no_ops: Bools = is_empty & ~is_hidden & flags_of(pc.equal(rows.column("operation"), change.UPDATE))
    return no_ops


@dataclass(frozen=True)
class Effects:
    """n effects of one or both sides. `apart`: a delete and an insert that are one update."""

    side: npt.NDArray[np.int32]
    place: pa.BinaryArray
    position: pa.BinaryArray
    transaction: Numbers
    key_1: Numbers
    key_2: Numbers
    sort_key: pa.BinaryArray
    op: npt.NDArray[np.int32]
    before: CellHashes
    after: CellHashes
    text_before: CellHashes
    text_after: CellHashes
    change_id: pa.StringArray
    committed_at: pa.TimestampArray
    no_op: Bools
    apart: Bools

    def __len__(self) -> int:
        return len(self.op)

    def take(self, at: Indices) -> Effects:
        """Takes effects by index; no index may be below 0."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return Effects(
            **{n: taken(v, at) if isinstance(v, pa.Array) else v.take(at) for n, v in values.items()}
        )

    def table(self) -> pa.Table:
        """Converts to a table with the columns of `FAULTY`."""
        values = {name: getattr(self, name) for name in FAULTY.names}
        cells = {n: v.array() if isinstance(v, CellHashes) else v for n, v in values.items()}
        return table_of(cells, FAULTY)


# The columns of `Effects.table`.
FAULTY: Final = pa.schema(
    [*(field for field in SCHEMA if field.name != "is_placed"), pa.field("apart", pa.bool_())]
)


def of_table(rows: pa.Table, columns: Columns) -> Effects:
    """Builds effects from rows of `SCHEMA` or `FAULTY`."""
    widths = {"before": len(columns.forms), "after": len(columns.forms)}
    apart = flags_of(column(rows, "apart")) if "apart" in rows.column_names else np.zeros(len(rows), np.bool_)
    values: dict[str, Any] = {name: column(rows, name) for name in FAULTY.names if name != "apart"}
    for name in ("before", "after", "text_before", "text_after"):
        values[name] = CellHashes.of(values[name], widths.get(name, len(columns.with_texts)))
    for name in ("side", "transaction", "key_1", "key_2", "op"):
        values[name] = values[name].to_numpy()
    values["no_op"] = flags_of(values["no_op"])
    return Effects(**values, apart=apart)


def said(effects: Effects) -> Numbers:
    """Hashes the operation and both images, in the forms in which equal values are equal."""
    parts = [effects.op.astype(np.int64)]
    for values, texts in ((effects.before, effects.text_before), (effects.after, effects.text_after)):
        parts.append(values.present.astype(np.int64))
        parts += [values.numbers[:, at] for at in range(values.numbers.shape[1])]
        parts += [number.view(np.int64) for number in _packed(values.known)]
        parts += [np.where(values.present, texts.numbers[:, at], 0) for at in range(texts.numbers.shape[1])]
    return folded(parts, len(effects))


def _packed(known: Bools) -> list[npt.NDArray[np.uint64]]:
    """Packs the flags of each row into 64-bit numbers."""
    width = -(-known.shape[1] // 64) * 64
    wide = np.zeros((len(known), width), np.bool_)
    wide[:, : known.shape[1]] = known
    packed: Bytes = np.packbits(wide, axis=1)
    return [
        np.ascontiguousarray(packed[:, at : at + 8]).view(np.uint64).ravel() for at in range(0, width // 8, 8)
    ]


# The columns that tell whether both feeds have the same effect.
SAID: Final = pa.schema(
    [
        *(SCHEMA.field(name) for name in ("side", "place", "position", "is_placed", "key_1", "key_2")),
        ("said", pa.int64()),
        SCHEMA.field("committed_at"),
    ]
)


def narrow(batch: pa.RecordBatch, columns: Columns) -> pa.RecordBatch:
    """Reduces effects to the columns of `SAID`."""
    effects = of_table(pa.Table.from_batches([batch]), columns)
    return batch_of({**by_name(batch), "said": said(effects)}, SAID)
