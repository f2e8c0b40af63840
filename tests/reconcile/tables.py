"""Ledgers as Arrow tables, and an in-memory lake whose windows kernels reconcile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.audit import applied
from changeledger.kernels.arrow import Bools, column, flags_of, history_schema, ledger_schema, valid
from changeledger.kernels.display import keys_as_json
from changeledger.kernels.order import are_among
from changeledger.kernels.rows import as_batch
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.reconcile import buckets, history
from changeledger.reconcile.effects import exploded
from changeledger.reconcile.history import History
from changeledger.reconcile.resolve import Resolved, resolve
from changeledger.reconcile.selection import as_places, were_there

# Columns that depend on the run and on the delivery of a row.
OF_THE_RUN = ("_window_id", "window_id", "source_position", "paired_source_position")

LedgerRow = dict[str, Any]


def truncates_of(changes: pa.Table) -> pa.Table:
    """Returns the ledger rows that emptied the table."""
    return changes.filter(pc.equal(changes.column("operation"), change.TRUNCATE))


def ledger(rows: Iterable[LedgerRow], contract: Contract) -> pa.Table:
    """A ledger of rows that have some of its columns. Times without a zone are UTC."""
    schema, rows = ledger_schema(contract), list(rows)
    return pa.table([pa.array([_arrow(r.get(f.name)) for r in rows], f.type) for f in schema], schema=schema)


def _arrow(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return list(value.items()) if isinstance(value, dict) else value


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Returns rows in a form to compare: times without their zone (UTC), maps as dicts."""
    kinds = {field.name: field.type for field in table.schema}
    return [{name: _plain(v, kinds[name]) for name, v in row.items()} for row in table.to_pylist()]


def _plain(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return dict(value) if pa.types.is_map(kind) and value is not None else value


def all_at_once(changes: pa.Table, contract: Contract, run: str = "run") -> History:
    """Builds the history of a whole ledger."""
    nothing = history_schema(contract).empty_table()
    return history.rebuilt(exploded(changes), nothing, truncates_of(changes), contract, run)


def intervals(rows: Iterable[LedgerRow], contract: Contract) -> list[dict[str, Any]]:
    built = all_at_once(ledger(rows, contract), contract)
    return rows_of(pa.concat_tables([built.closed, built.opened]))


class Lake:
    """The published tables of one source table, after each window."""

    def __init__(self, contract: Contract, windows: Iterable[Sequence[LedgerRow]] = ()) -> None:
        self.contract, self.changes = contract, ledger([], contract)
        empty = {name: schema.empty_table() for name, schema in buckets.outputs(contract).items()}
        self.history, self.breaks = empty[buckets.HISTORY], empty[buckets.BREAKS]
        self._current = empty[buckets.CURRENT]
        self._key = empty[buckets.KEYS].column_names
        for number, rows in enumerate(windows):
            self.carry(rows, number)

    def carry(self, rows: Sequence[LedgerRow], number: int) -> None:
        """Writes a window of these rows, at source positions that no earlier window has."""
        window, table = f"w{number}", self.contract.table
        delivered = [
            {**row, "window_id": window, "source_position": (table, 0, number * 10_000 + at, None)}
            for at, row in enumerate(rows)
        ]
        published = self.changes
        resolved = resolve(ledger(delivered, self.contract), published, self.contract, window)
        gone = column(resolved.replaced, "change_id")
        kept = published.filter(pc.invert(pc.is_in(column(published, "change_id"), value_set=gone)))
        self.changes = pa.concat_tables([kept, resolved.changes])
        if len(resolved.changes):
            self._build(resolved, published, window)
            self._audit(resolved.changes, window)

    def _audit(self, changes: pa.Table, window: str) -> None:
        """Asserts that the audit finds in the history what reconcile has made of the window's changes."""
        written = self.history.filter(pc.equal(self.history.column("_window_id"), window))
        of_each = (
            (applied.EFFECTS, changes, applied.ledger_read, applied.effects),
            (applied.INTERVALS, written, applied.history_read, applied.intervals),
        )
        sides = {
            side: pa.Table.from_batches(
                [kernel(as_batch(rows.select(read(self.contract).names)), self.contract)]
            )
            for side, rows, read, kernel in of_each
        }
        for side in sides:
            assert [*applied.broken(sides, side).why] == []

    def _build(self, resolved: Resolved, published: pa.Table, window: str) -> None:
        emptied, of_run = truncates_of(self.changes), (self.contract, window)
        is_closed = self.history.column("_valid_to").is_valid()
        again = resolved.replaced.select(["key", "sort_key"])
        if came := tuple(truncates_of(resolved.changes).column("sort_key").to_pylist()):
            ended = were_there(as_batch(self.history.filter(is_closed)), came)
            places = as_places(ended, self.contract, min(came))
            again = pa.concat_tables([again, pa.Table.from_batches([places])])
        parts = {
            buckets.CHANGES: exploded(resolved.changes),
            buckets.OPENED: self.history.filter(pc.invert(is_closed)),
            buckets.SHOWN: published.filter(pc.equal(published.column("operation"), change.SNAPSHOT)),
            buckets.AGAIN: again,
        }
        continued = buckets.continued(parts, emptied, *of_run)
        self._merge(continued)
        # Keys that have no interval at the position to rebuild from are rebuilt from their beginning.
        late, since = continued[buckets.AGAIN], pc.min(continued[buckets.AGAIN].column("sort_key")).as_py()
        while len(late):
            parts = {**self._since(since), buckets.AGAIN: late}
            rebuilt = buckets.rebuilt(parts, emptied, *of_run)
            self._merge(rebuilt, late, since)
            assert since is not None or not len(rebuilt[buckets.AGAIN])
            late, since = rebuilt[buckets.AGAIN], None

    def _since(self, since: bytes | None) -> dict[str, pa.Table]:
        """Returns the changes from sort key `since` on, and the intervals that contain it."""
        if since is None:
            return {buckets.CHANGES: exploded(self.changes), buckets.OPENED: self.history.slice(0, 0)}
        behind = self.changes.filter(pc.greater_equal(self.changes.column("sort_key"), since))
        begun = self.history.filter(pc.less(self.history.column("_sort_key"), since))
        return {
            buckets.CHANGES: exploded(behind),
            buckets.OPENED: begun.filter(pa.array(_reach(begun, since))),
        }

    def _merge(
        self, new: Mapping[str, pa.Table], late: pa.Table | None = None, since: bytes | None = None
    ) -> None:
        """Merges new rows into the lake's tables.

        `late`: keys whose intervals are replaced. `since`: only those that end at this sort key or later.
        """
        keys = [column(new[buckets.KEYS], name) for name in self._key]
        goes = self._is_of(self.history, keys) & ~valid(column(self.history, "_valid_to"))
        if late is not None:
            late_keys = column(late, "key").flatten()
            goes |= self._is_of(self.history, late_keys) & _reach(self.history, since)
            texts = keys_as_json(dict(zip(self._key, late_keys, strict=True)))
            is_resolved = pc.is_in(self.breaks.column("key"), pa.array(texts))
            if since is not None:
                is_behind = pc.greater_equal(self.breaks.column("sort_key"), since)
                is_resolved = pc.and_(is_resolved, is_behind)
            self.breaks = self.breaks.filter(pc.invert(is_resolved))
        stays = self._current.filter(pa.array(~self._is_of(self._current, keys)))
        self.history = pa.concat_tables([self.history.filter(pa.array(~goes)), new[buckets.HISTORY]])
        self._current = pa.concat_tables([stays, new[buckets.CURRENT]])
        self.breaks = pa.concat_tables([self.breaks, new[buckets.BREAKS]])

    def _is_of(self, rows: pa.Table, keys: Sequence[pa.Array]) -> Bools:
        return are_among([column(rows, name) for name in self._key], keys)

    @property
    def current(self) -> dict[tuple[Any, ...], dict[str, Any]]:
        return {tuple(row[name] for name in self._key): row for row in rows_of(self._current)}

    def shown(self, name: str) -> list[dict[str, Any]]:
        """Rows of `changes`, `history`, `current` or `breaks`, without columns that depend on the windows."""
        rows = rows_of(self._current if name == "current" else getattr(self, name))
        return sorted(({k: v for k, v in row.items() if k not in OF_THE_RUN} for row in rows), key=repr)

    @property
    def all_shown(self) -> dict[str, list[dict[str, Any]]]:
        return {name: self.shown(name) for name in ("changes", "history", "current", "breaks")}


def _reach(intervals: pa.Table, since: bytes | None) -> Bools:
    """Returns which intervals end at this sort key or later."""
    ends = column(intervals, "_next_sort_key")
    return ~valid(ends) | flags_of(pc.greater_equal(ends, since or b""))
