"""Decodes raw rows of one `_CT` table: each is a change, half of one, or cannot be read for a reason."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.dialects.plan import TablePlan
from changeledger.dialects.sqlserver_cdc.exports import in_hex
from changeledger.dialects.sqlserver_cdc.header import (
    COMMAND_ID,
    COMMIT_TIME,
    OPERATION,
    SEQVAL,
    START_LSN,
    UPDATE_MASK,
    Header,
)
from changeledger.dialects.tables import outcomes, values
from changeledger.dialects.tables.outcomes import Decoded, Problems
from changeledger.dialects.tables.rows import RawRows
from changeledger.kernels import clocks, fingerprints, images, lsn, masks, octets
from changeledger.kernels.arrow import Bools, Bytes, Indices, fixed_width, flags_of, numbers, valid
from changeledger.kernels.cells import KNOWN, NOT_CAPTURED, UNAVAILABLE, Cells
from changeledger.kernels.changes import Changes
from changeledger.model import change

_DELETE, _INSERT, _BEFORE, _AFTER, _NET = range(1, 6)
# A net change (5) may have been an insert or an update: an update without a before image is true of both.
_OPERATIONS = pa.array(
    [None, change.DELETE, change.INSERT, change.UPDATE, change.UPDATE, change.UPDATE], pa.string()
)
# The width of `__$update_mask` in SQL Server, in bytes.
_MASK_BYTES = 128
# A mask in hex with all bits set, from the first one on.
_FULL = "^(01|03|07|0F|1F|3F|7F|FF)(FF)*$"


def decode(raw: pa.RecordBatch, plan: TablePlan) -> pa.RecordBatch:
    """Returns an `outcomes.decoded_schema` row for each raw row, in their order.

    `raw` has a `source_position`.
    """
    of_bytes = [column.name for column in plan.writer_schema.columns if column.spark_type == "binary"]
    rows = in_hex(RawRows.of(raw), [UPDATE_MASK, *of_bytes])
    header = Header.of(rows, plan.feed)
    cells = [values.cells_of(rows, column, empty_is_null=False) for column in plan.writer_schema.columns]
    problems = _problems(rows, header, cells, plan)
    decoded = _decoded(raw, rows, header, [column_cells.values for column_cells in cells], plan)
    return outcomes.decoded_rows(raw, decoded, problems, plan)


def _problems(rows: RawRows, header: Header, cells: Sequence[Cells], plan: TablePlan) -> Problems:
    problems = Problems(rows.size)
    start, seqval = rows.shown(START_LSN), rows.shown(SEQVAL)
    wrong = f"is not an LSN of {lsn.WIDTH} bytes:"
    problems.add(~header.start_lsn.known, "malformed_lsn", lambda row: f"{START_LSN} {wrong} {start(row)}")
    if rows.has(SEQVAL):
        problems.add(~header.seqval.known, "malformed_lsn", lambda row: f"{SEQVAL} {wrong} {seqval(row)}")
    command, code = rows.shown(COMMAND_ID), rows.shown(OPERATION)
    negative = header.broken_command | (header.command_id < 0)
    problems.add(negative, "malformed_command_id", lambda row: f"{COMMAND_ID} is {command(row)}")
    unknown = (header.code < _DELETE) | (header.code > _NET)
    problems.add(unknown, "unknown_operation", lambda row: f"{OPERATION} is {code(row)}")
    if rows.has(UPDATE_MASK):
        _add_mask_problems(problems, rows, header, plan)
    outcomes.add_misfits(problems, cells, plan)
    if rows.has(COMMIT_TIME):
        _add_time_problems(problems, rows, header)
    outcomes.add_null_keys(problems, cells, plan)
    return problems


def _add_mask_problems(problems: Problems, rows: RawRows, header: Header, plan: TablePlan) -> None:
    text, known = rows.shown(UPDATE_MASK), valid(header.mask)
    # Net changes have no mask. They are recognized by operation 5, and by their missing seqval.
    wanted = header.code != _NET if rows.has(SEQVAL) else valid(rows.text(UPDATE_MASK))
    problems.add(~known & wanted, "malformed_mask", lambda row: f"the mask is {text(row)}")
    needed = masks.width(_highest(plan))
    width = octets.lengths(header.mask)
    bad, wide = known & (width < needed), width > needed
    if wide.any():
        # A wider mask is legal: the rows may lack the table's last columns, whose bits the mask has. But no
        # mask is wider than SQL Server's type, and an insert or delete sets all bits.
        full = flags_of(pc.match_substring_regex(masks.to_hex(header.mask), _FULL))
        bad |= wide & ((width > _MASK_BYTES) | (np.isin(header.code, (_DELETE, _INSERT)) & ~full))
    expected = f"the mask of {plan.writer_schema.table} has {needed} bytes, this one is 0x"
    problems.add(bad, "mask_width", lambda row: expected + header.mask[row].as_py().hex().upper())


def _add_time_problems(problems: Problems, rows: RawRows, header: Header) -> None:
    is_known, text = valid(header.committed_at), rows.shown(COMMIT_TIME)
    # An empty text is an export's NULL.
    is_other = ~is_known & flags_of(pc.not_equal(pc.utf8_trim_whitespace(rows.text(COMMIT_TIME)), ""))
    remedy = "have the export write it as 2026-08-07 16:25:00.883"
    problems.add(is_other, "malformed_time", lambda row: f"{COMMIT_TIME} is {text(row)}: {remedy}")
    problems.add(~is_known, "no_commit_time", "cdc.lsn_time_mapping has no such LSN")
    # SQL Server converts an empty text to 1900 (Microsoft's page "CAST and CONVERT").
    is_early = numbers(header.committed_at) < clocks.FIRST_KNOWN
    problems.add(
        is_early, "no_commit_time", f"{COMMIT_TIME} is before 1971: SQL Server converts an empty text to 1900"
    )


def _highest(plan: TablePlan) -> int:
    return max(column.ordinal for column in plan.writer_schema.columns)


def _decoded(
    raw: pa.RecordBatch, rows: RawRows, header: Header, cells: Sequence[pa.Array], plan: TablePlan
) -> Decoded:
    written, code = plan.writer_schema, header.code
    is_half = (code == _BEFORE) | (code == _AFTER)
    is_old = (code == _DELETE) | (code == _BEFORE)
    masked = valid(header.mask)
    bits = masks.bits(header.mask, _highest(plan), written.mask_order or "big")
    ordinals = [column.ordinal for column in written.columns]
    flags = bits[:, [ordinal - 1 for ordinal in ordinals]]
    before_unknown, after_unknown = _gaps(rows, code, cells, flags, plan)
    place = header.position()
    sort_key = np.hstack([place, code.astype(np.uint8)[:, None]])
    changes = Changes(
        operation=_OPERATIONS.take(pa.array(np.where((code < 0) | (code > _NET), 0, code))),
        before=outcomes.side(cells, is_old, before_unknown, plan),
        after=outcomes.side(cells, ~is_old, after_unknown, plan),
        key=images.fitted_key(cells, plan.writer_schema.columns, plan.contract),
        moved=np.zeros(rows.size, np.bool_),
        changed=masks.columns(bits, ordinals, written.names, masked & is_half),
        mask=masks.to_hex(header.mask),
        commit_lsn=header.start_lsn,
        change_lsn=header.seqval,
        event_serial_no=pa.array(header.command_id),
        sort_key=fixed_width(sort_key),
        committed_at=header.committed_at,
        transaction_id=lsn.to_text(header.start_lsn),
        flags={
            change.MASK_DISAGREES: _disagrees(code, flags, masked),
            change.CLOCK_SUSPECT: header.is_suspect,
            change.BEFORE_UNKNOWN: code == _NET,
        },
        source_position=raw.column("source_position"),
    )
    return Decoded(changes, code == _BEFORE, code == _AFTER, _pair_key(rows, place, cells, is_half, plan))


def _disagrees(code: Indices, flags: Bools, masked: Bools) -> Bools:
    """Returns the inserts and deletes whose mask does not set the bits of all columns.

    Masks of updates are compared with their images once the two rows are joined.
    """
    sets_all = (code == _DELETE) | (code == _INSERT)
    return masks.disagrees(flags, masked, required=sets_all[:, None], allowed=np.ones(1, np.bool_))


def _pair_key(
    rows: RawRows, place: Bytes, cells: Sequence[pa.Array], is_half: Bools, plan: TablePlan
) -> pa.BinaryArray:
    """Returns what rows 3 and 4 of one update share.

    Without a seqval only the key distinguishes the rows that one statement updated.
    """
    if not rows.has(SEQVAL) and plan.writer_schema.key:
        by_name = dict(zip(plan.writer_schema.names, cells, strict=True))
        hashes = np.full((1, rows.size), 42, np.uint64)
        for column in plan.writer_schema.key:
            hashes = fingerprints.of_column(hashes, by_name[column.name])
        place = np.hstack([place, hashes[0].astype(">u8").view(np.uint8).reshape(-1, 8)])
    return fixed_width(place, is_half)


def _gaps(
    rows: RawRows, code: npt.NDArray[np.int64], cells: Sequence[pa.Array], flags: Bools, plan: TablePlan
) -> tuple[Bytes, Bytes]:
    """Returns the states of the before and after images' cells: which NULLs are unknown values.

    * A large column's NULL is unknown on operation 3; on 1, too, if it is text, ntext or image; on 4 if the
      mask does not set its bit; on 5, which has no mask and may be an update.
    * A column that cannot be NULL never is: captures have lost a `bit` of deletes (estuary/connectors#2796).
    * A column that the source table no longer has is NULL in every row since. Only an update that sets its
      bit has set it to NULL.
    """
    before, after = (np.full((rows.size, len(cells)), KNOWN, np.uint8) for _ in range(2))
    for at, (column, cell) in enumerate(zip(plan.writer_schema.columns, cells, strict=True)):
        empty = ~valid(cell)
        if not rows.has(column.name):
            before[:, at] = after[:, at] = NOT_CAPTURED
        elif not column.nullable:
            before[empty, at] = after[empty, at] = UNAVAILABLE
        elif column.dropped:
            before[empty, at] = UNAVAILABLE
            after[empty & ((code != _AFTER) | ~flags[:, at]), at] = UNAVAILABLE
        elif column.is_large:
            codes = (_DELETE, _BEFORE) if column.is_lob else (_BEFORE,)
            before[empty & np.isin(code, codes), at] = UNAVAILABLE
            after[empty & np.isin(code, (_AFTER, _NET)) & ~flags[:, at], at] = UNAVAILABLE
    return before, after
