"""Builds what a run leaves for one table, in the narrow columns of the audit, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.audit import applied, ids, key_rules, record_sums, suspects
from changeledger.audit import changes as changes_rules
from changeledger.audit.columns import built_schema, changes_schema
from changeledger.audit.narrow_rows import NARROW, NOT_CHECKED, RULES
from changeledger.kernels.arrow import RECORD
from changeledger.kernels.hashed import by
from changeledger.kernels.touched import HASHES, Among, known
from changeledger.model.contract import Column, Contract

CONTRACT = Contract(
    table="dbo.Order Lines",
    columns=(
        Column(name="order", type="int", ordinal=1, nullable=False, key_position=1),
        # Names that the rules use themselves, or that need quoting.
        Column(name="rows", type="int", ordinal=2, nullable=False, key_position=2),
        Column(name="unit.price", type="decimal(18,4)", ordinal=3),
    ),
)
RUN = "the_run"
AT = datetime(2026, 8, 7, 16, 25, tzinfo=UTC)
Row = dict[str, Any]


def table(schema: pa.Schema, rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist([{f.name: row.get(f.name) for f in schema} for row in rows], schema)


def record(offset: int | None, source: str | None = "shop.orders") -> Row:
    return {"source": source, "partition": 0, "offset": offset, "row": None}


def row_record(row: str, number: int | None = None) -> Row:
    """The record of a raw row of a change table."""
    return {"source": "orders__ct", "partition": None, "offset": number, "row": row.encode()}


def hashed(position: Row | None) -> int:
    return int(record_sums.hashes(pa.array([position], RECORD))[0].as_py())


def key(at: int | None, rows: int | None = 1) -> Row:
    return {"order": at, "rows": rows}


def change(at: int, **members: Any) -> Row:
    """A correct insert of key (at, 1). An image is given as its key, or None if it is absent."""
    row = {
        "change_id": f"id{at}",
        "operation": "insert",
        "key": key(at),
        "after": key(at),
        "before": None,
        "commit_lsn": bytes(10),
        "sort_key": bytes([at]),
        "committed_at": AT,
        "flags": [],
        "source_position": record(at),
        **members,
    }
    for side in ("before", "after"):
        row |= {f"has_{side}": row[side] is not None, f"{side}_key": row[side] or key(None, None)}
    return row


def changes(*rows: Row) -> pa.Table:
    return table(changes_schema(CONTRACT), rows)


def batch(rows: pa.Table) -> pa.RecordBatch:
    return rows.combine_chunks().to_batches()[0] if len(rows) else pa.RecordBatch.from_pylist([], rows.schema)


CLEAN = (
    change(1),
    change(2, operation="snapshot"),
    change(3, operation="update", before=key(3)),
    change(4, operation="update", flags=["before_unknown"]),
    change(5, operation="delete", before=key(5), after=None),
    change(6, operation="truncate", key=None, after=None),
)


def interval(at: int, to: datetime | None = None, **members: Any) -> Row:
    """An interval of key (at, 1). It is open unless `to` is given."""
    closed = None if to is None else b"\x02"
    return {
        "key": key(at), "_change_id": f"id{at}", "_sort_key": b"\x01", "_window_id": RUN, "_valid_from": AT,
        "_valid_to": to, "_next_sort_key": closed, "_is_deleted": False, **members,
    }  # fmt: skip


def deleted(rows: pa.Table) -> list[Row]:
    """The open intervals of the changes' keys, as deleted rows: these have no current rows."""
    keys = {str(row["key"]): row["key"] for row in rows.to_pylist() if row["key"] is not None}
    return [interval(0, key=of_row, _is_deleted=True) for of_row in keys.values()]


def of_keys(rows: pa.Table, history: Sequence[Row] | None = None, current: Sequence[Row] = ()) -> pa.Table:
    """Returns the `narrow_rows.ROWS` of the rules for single rows, and of the comparing rules.

    Comparing rules look only at suspects. `history`: by default, the history of deleted rows.
    """
    schema, history = built_schema(CONTRACT), deleted(rows) if history is None else history
    parts = {
        key_rules.CHANGES: rows,
        key_rules.HISTORY: table(schema, history),
        key_rules.CURRENT: table(schema, current),
    }
    nothing = {side: applied.shown(schema, CONTRACT).empty_table() for side, schema in applied.SIDES.items()}
    built, key_of = {name: batch(parts[name]) for name in parts}, by("key")
    opened = suspects.opened(built[key_rules.HISTORY], key_of)
    hashed = {
        suspects.PLACES: suspects.places(built[key_rules.CHANGES]),
        suspects.OPENED: opened,
        suspects.CURRENT: suspects.versions(built[key_rules.CURRENT], key_of),
    }
    asked = among("key", suspected(hashed)[suspects.KEYS], built)
    of_run = (
        published.filter(pc.equal(published.column("_window_id"), RUN))
        for published in (built["history"], built["current"])
    )
    of_each = [
        changes_rules.of_each(built[key_rules.CHANGES], CONTRACT.table),
        *(
            rule(part, CONTRACT.table)
            for rule, part in zip((key_rules.of_intervals, key_rules.of_current), of_run, strict=True)
        ),
    ]
    compared = key_rules.of_keys({**nothing, **as_tables(asked)}, CONTRACT.table)[NARROW]
    return pa.concat_tables([*(pa.Table.from_batches([part]) for part in of_each), compared])


def as_tables(batches: Mapping[str, pa.RecordBatch]) -> dict[str, pa.Table]:
    return {name: pa.Table.from_batches([part]) for name, part in batches.items()}


def suspected(hashed: Mapping[str, pa.RecordBatch]) -> Mapping[str, pa.Table]:
    """Returns the suspects among these rows only."""
    schemas = {
        suspects.PLACES: suspects.PLACE, suspects.OPENED: suspects.OPEN, suspects.CURRENT: applied.VERSION,
    }  # fmt: skip
    schemas |= applied.SIDES
    schemas |= dict.fromkeys((ids.NEW, ids.PUBLISHED, ids.DUPLICATES, ids.STAYED), HASHES)
    nothing = {name: schema.empty_table() for name, schema in schemas.items()}
    return suspects.suspects({**nothing, **as_tables(hashed)})


def among(name: str, hashes: pa.Table, parts: Mapping[str, pa.RecordBatch]) -> dict[str, pa.RecordBatch]:
    """Returns the rows of the suspects."""
    kernel = Among(by(name), known(hashes))
    return {part: kernel(rows) for part, rows in parts.items()}


def broken(narrow: pa.Table) -> dict[str, list[Row]]:
    """Returns, by rule, the narrow rows that break it: key, position, change id and reason."""
    rows: dict[str, list[Row]] = {}
    for row in narrow.to_pylist():
        for rule in RULES:
            if row[rule] is not None:
                assert not row[rule].startswith(NOT_CHECKED), row[rule]
                shown = {name: row[name] for name in ("key", "position", "change_id")}
                rows.setdefault(rule, []).append({**shown, "why": row[rule]})
    return rows


def violated(narrow: pa.Table) -> dict[str, int]:
    """Returns, by rule, how many rows break it."""
    return {rule: len(rows) for rule, rows in broken(narrow).items()}


def of_ids(
    rows: pa.Table, published: Sequence[Row] = (), duplicates: Sequence[Row] = (), stayed: Sequence[str] = ()
) -> Mapping[str, pa.Table]:
    """Applies the rules of ids, which look at suspects only."""
    parts = {
        ids.NEW: ids.new_ids(batch(rows)),
        ids.PUBLISHED: batch(table(ids.PUBLISHED_IDS, published)),
        ids.DUPLICATES: batch(table(ids.DUPLICATE_IDS, duplicates)),
        ids.STAYED: batch(table(ids.IDS, [{"id": change_id} for change_id in stayed])),
    }
    hashed = {name: suspects.each(part, by("id")) for name, part in parts.items() if name != ids.NEW}
    hashed[ids.NEW] = suspects.ids_of_changes(batch(rows))
    asked = among("id", suspected(hashed)[suspects.IDS], parts)
    return ids.of_ids(as_tables(asked), CONTRACT.table)


def entries(*said: tuple[Row, str], times: int = 1) -> pa.Table:
    rows = [
        {"source_position": position, "hash": hashed(position), "disposition": disposition, "times": times}
        for position, disposition in said
    ]
    return table(record_sums.ENTRIES, rows)


def records(*rows: Row) -> pa.Table:
    return pa.table({"source_position": pa.array(rows, RECORD)})
