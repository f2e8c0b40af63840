"""Decodes raw rows of one `__ct` table: each is a change, half of one, or cannot be read for a reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.dialects.plan import TablePlan
from changeledger.dialects.qlik_tables.header import (
    CHANGE_MASK,
    CHANGE_OPER,
    OPERATION,
    TIMESTAMP,
    TRANSACTION_ID,
    Header,
    source_of,
)
from changeledger.dialects.qlik_tables.positions import SEQ_DIGITS, Sequences, Times, times
from changeledger.dialects.tables import outcomes, values
from changeledger.dialects.tables.outcomes import Decoded, Problems
from changeledger.dialects.tables.rows import RawRows
from changeledger.kernels import images, lsn, masks
from changeledger.kernels.arrow import Bools, Bytes, fixed_width, named_where, valid
from changeledger.kernels.cells import KNOWN, NOT_CAPTURED, UNAVAILABLE, Cells
from changeledger.kernels.changes import Changes
from changeledger.model import change
from changeledger.model.contract import Contract

# A row of the full load has no header values.
_LOAD, _TRUNCATE, _DELETE, _INSERT, _BEFORE, _UPDATE, _UNKNOWN = range(7)
_LETTERS = pa.array(["", "T", "D", "I", "B", "U"])
_OPERATIONS = pa.array(
    [change.SNAPSHOT, change.TRUNCATE, change.DELETE, change.INSERT, change.UPDATE, change.UPDATE, None]
)
# At one change_seq a delete comes before an insert, and a truncate before both.
_RANKS = np.frombuffer(b"0012340", np.uint8)


@dataclass(frozen=True)
class _Masks:
    """What the masks of n rows say.

    They say nothing if their byte order is unknown, or no column of the source is known. A mask with a bit
    beyond the table's columns (`is_of_others`) says nothing either: the table had other columns when it was
    written, so its other bits may mean other columns, too.
    """

    data: pa.BinaryArray
    # n x columns of the writer schema: whether the mask sets them. All clear where a mask is not `known`.
    flags: Bools
    known: Bools
    sets_header: Bools
    is_of_others: Bools

    @classmethod
    def of(cls, data: pa.BinaryArray, writer_schema: Contract) -> _Masks:
        size = len(data)
        if writer_schema.mask_order is None or not writer_schema.columns:
            nothing = np.zeros(size, np.bool_)
            flags = np.zeros((size, len(writer_schema.columns)), np.bool_)
            return cls(data, flags, nothing, nothing, nothing)
        ordinals = [column.ordinal for column in writer_schema.columns]
        is_of_others = masks.highest_set(data, writer_schema.mask_order) > max(ordinals)
        known = valid(data) & ~is_of_others
        bits = masks.bits(data, max(ordinals), writer_schema.mask_order) & known[:, None]
        sets_header = masks.any_set(bits & ~masks.of(ordinals, max(ordinals)))
        flags = bits[:, [ordinal - 1 for ordinal in ordinals]]
        return cls(data, flags, known, sets_header, is_of_others)


@dataclass(frozen=True)
class _Rows:
    """The decoded parts of n rows."""

    raw: RawRows
    header: Header
    code: npt.NDArray[np.int64]
    sequences: Sequences
    stamp: pa.TimestampArray
    times: Times
    masks: _Masks
    cells: Sequence[Cells]

    def is_one_of(self, *codes: int) -> Bools:
        is_of_code: Bools = np.isin(self.code, codes)
        return is_of_code

    @property
    def values(self) -> list[pa.Array]:
        return [column_cells.values for column_cells in self.cells]


def decode(raw: pa.RecordBatch, plan: TablePlan) -> pa.RecordBatch:
    """Returns an `outcomes.decoded_schema` row for each raw row, in their order.

    `raw` has a `source_position`. If the byte order of the masks (`mask_order`) is unknown, so is `changed`.
    """
    source = source_of(plan.feed)
    raw_rows = RawRows.of(raw)
    header = Header(raw_rows.without(plan.writer_schema.names), source)
    letters = pc.index_in(header.letter, value_set=_LETTERS)
    code = pc.fill_null(letters, _UNKNOWN).to_numpy().astype(np.int64)
    sequences, stamp = Sequences.of(header.seq), header.stamp()
    rows = _Rows(
        raw_rows,
        header,
        code,
        sequences,
        stamp,
        times(stamp, sequences, code == _LOAD),
        _Masks.of(header.mask(), plan.writer_schema),
        [
            values.cells_of(raw_rows, column, empty_is_null=source.empty_is_null)
            for column in plan.writer_schema.columns
        ],
    )
    return outcomes.decoded_rows(raw, _decoded(raw, rows, plan), _problems(rows, plan), plan)


def _problems(rows: _Rows, plan: TablePlan) -> Problems:
    header, problems = rows.header, Problems(len(rows.code))
    missing = header.missing()
    if missing is not None:
        problems.add(np.ones(len(rows.code), np.bool_), "no_header", missing)
    oper, word = (header.rows.shown(header.name(name), "") for name in (CHANGE_OPER, OPERATION))

    def said(row: int) -> str:
        parts = (part(row).strip(" ") for part in (oper, word))
        return "the operation is " + " ".join(part for part in parts if part)

    problems.add(rows.code == _UNKNOWN, "unknown_operation", said)
    problems.add(header.disagrees().to_numpy(zero_copy_only=False), "operation_disagrees", said)
    problems.add(
        (rows.code != _LOAD) & ~rows.sequences.known,
        "malformed_change_seq",
        lambda row: f"change_seq is not {SEQ_DIGITS} digits: {header.seq[row].as_py() or 'NULL'}",
    )
    _add_mask_problems(problems, rows)
    outcomes.add_misfits(problems, rows.cells, plan)
    _add_time_problems(problems, rows)
    outcomes.add_null_keys(problems, rows.cells, plan, rows.code != _TRUNCATE)
    return problems


def _add_time_problems(problems: Problems, rows: _Rows) -> None:
    if rows.stamp.null_count:
        text = rows.header.text(TIMESTAMP)
        broken = valid(text) & ~valid(rows.stamp)
        problems.add(broken, "malformed_time", lambda row: f"the timestamp is {text[row].as_py()}")
    no_time = ~valid(rows.times.committed_at)
    problems.add(no_time, "no_commit_time", "neither timestamp nor change_seq has a commit time")


def _add_mask_problems(problems: Problems, rows: _Rows) -> None:
    broken = rows.is_one_of(_INSERT, _UPDATE, _DELETE) & ~valid(rows.masks.data)
    if broken.any():
        text = rows.header.text(CHANGE_MASK)
        problems.add(broken & valid(text), "malformed_mask", lambda row: f"the mask is {text[row].as_py()}")


def _decoded(raw: pa.RecordBatch, rows: _Rows, plan: TablePlan) -> Decoded:
    writer_schema, header, size = plan.writer_schema, rows.header, raw.num_rows
    is_old, is_new = rows.is_one_of(_BEFORE, _DELETE), rows.is_one_of(_LOAD, _INSERT, _UPDATE)
    gaps = _gaps(rows, plan)
    sort_key = np.hstack([rows.sequences.digits, _RANKS[rows.code][:, None]])
    transaction_id, nothing = header.text(TRANSACTION_ID), pa.scalar(None, pa.string())
    # A truncate is of the whole table: its row has no mask of a source row.
    of_a_row = pa.array(rows.code != _TRUNCATE)
    changes = Changes(
        operation=_OPERATIONS.take(pa.array(rows.code)),
        before=outcomes.side(rows.values, is_old, gaps, plan),
        after=outcomes.side(rows.values, is_new, gaps, plan),
        key=images.fitted_key(rows.values, plan.writer_schema.columns, plan.contract),
        moved=np.zeros(size, np.bool_),
        changed=_changed(rows, writer_schema),
        mask=pc.if_else(of_a_row, masks.to_hex(rows.masks.data), nothing),
        commit_lsn=header.commit_lsn(),
        change_lsn=lsn.unknown(size),
        event_serial_no=rows.sequences.ordinal(),
        sort_key=fixed_width(sort_key),
        committed_at=rows.times.committed_at,
        transaction_id=transaction_id,
        flags={
            change.MASK_DISAGREES: _disagrees(rows, writer_schema),
            change.POSITION_UNKNOWN: rows.code == _LOAD,
            change.CLOCK_SUSPECT: rows.times.is_suspect,
        },
        source_position=raw.column("source_position"),
    )
    in_transaction = pc.binary_join_element_wise(header.seq, pc.utf8_upper(transaction_id), " ")
    pair = pc.coalesce(in_transaction, header.seq).cast(pa.binary())
    return Decoded(changes, rows.code == _BEFORE, rows.code == _UPDATE, pair)


def _changed(rows: _Rows, writer_schema: Contract) -> pa.ListArray:
    """Returns the columns that the mask of each update sets."""
    known = rows.masks.known & (rows.code == _UPDATE)
    return named_where(rows.masks.flags, writer_schema.names, known)


def _gaps(rows: _Rows, plan: TablePlan) -> Bytes:
    """Returns the states of cells: which NULLs are unknown values.

    * In a DELETE, all of them.
    * In a large column, those before an update, and those after it if the mask does not set the bit.
    * In a column that cannot be NULL, all of them.

    A row with a NULL in its key is quarantined.
    """
    states = np.full((len(rows.code), len(rows.cells)), KNOWN, np.uint8)
    is_delete, is_before, is_update = (rows.code == code for code in (_DELETE, _BEFORE, _UPDATE))
    for at, (column, column_cells) in enumerate(zip(plan.writer_schema.columns, rows.cells, strict=True)):
        if not rows.raw.has(column.name):
            states[:, at] = NOT_CAPTURED
            continue
        unknown = is_delete | (not column.nullable)
        if column.is_large:
            unknown = unknown | is_before | (is_update & ~rows.masks.flags[:, at])
        states[unknown & ~valid(column_cells.values), at] = UNAVAILABLE
    return states


def _disagrees(rows: _Rows, writer_schema: Contract) -> Bools:
    """Returns which masks break the rules.

    An insert sets the columns that it inserted, and a delete its key. No mask sets a column of the header or
    of another table. An insert may or may not set a computed column.
    """
    key = np.array([bool(column.key_position) for column in writer_schema.columns], np.bool_)
    required, allowed = masks.of_key(rows.code == _DELETE, key)
    for at, (column, column_cells) in enumerate(zip(writer_schema.columns, rows.cells, strict=True)):
        if not column.computed:
            required[:, at] |= (rows.code == _INSERT) & valid(column_cells.values)
    disagreeing = masks.disagrees(rows.masks.flags, rows.masks.known, required, allowed)
    sets_none_of_these = rows.masks.sets_header | rows.masks.is_of_others
    return disagreeing | (rows.is_one_of(_INSERT, _UPDATE, _DELETE) & sets_none_of_these)
