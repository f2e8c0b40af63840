"""Ledgers as Arrow tables, and an in-memory lake whose windows kernels reconcile."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.arrow import column, history_schema, ledger_schema, row_type, valid
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.reconcile import history
from changeledger.reconcile.buckets import current
from changeledger.reconcile.effects import exploded, keys_of
from changeledger.reconcile.history import History, Published
from changeledger.reconcile.image_chain import BREAKS
from changeledger.reconcile.resolve import Resolved, resolve

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

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        self.changes = ledger([], contract)
        self.history = history_schema(contract).empty_table()
        self.current: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.breaks = BREAKS.empty_table()
        self.duplicates: list[dict[str, Any]] = []

    def carry(self, rows: Sequence[LedgerRow], number: int) -> Resolved:
        """Writes a window of these rows, at source positions that no earlier window has."""
        delivered = [
            {
                **row,
                "window_id": f"w{number}",
                "source_position": (self.contract.table, 0, number * 10_000 + at, None),
            }
            for at, row in enumerate(rows)
        ]
        return self.write(ledger(delivered, self.contract), f"w{number}")

    def write(self, new: pa.Table, window: str) -> Resolved:
        published = self.changes
        resolved = resolve(new, published, self.contract, window)
        gone = column(resolved.replaced, "change_id")
        kept = published.filter(pc.invert(pc.is_in(column(published, "change_id"), value_set=gone)))
        self.changes = pa.concat_tables([kept, resolved.changes])
        self.duplicates += rows_of(resolved.duplicates)
        if len(resolved.changes):
            self._build(resolved, published, window)
        return resolved

    def _build(self, resolved: Resolved, published: pa.Table, window: str) -> None:
        emptied, came = truncates_of(self.changes), truncates_of(resolved.changes)
        replaced = resolved.replaced.select(["key", "sort_key"])
        again = pa.concat_tables([replaced, self._ended_before(came)])
        state = Published(
            opened=self.history.filter(pc.invert(self.history.column("_valid_to").is_valid())),
            shown=published.filter(pc.equal(published.column("operation"), change.SNAPSHOT)),
            again=again,
        )
        continued = history.continued(exploded(resolved.changes), state, emptied, self.contract, window)
        self._merge(continued)
        if len(continued.again):
            unbuilt = self._rebuild(
                continued.again, pc.min(continued.again.column("sort_key")).as_py(), emptied, window
            )
            if len(unbuilt):
                assert not len(self._rebuild(unbuilt, None, emptied, window))

    def _rebuild(self, again: pa.Table, since: bytes | None, emptied: pa.Table, window: str) -> pa.Table:
        """Rebuilds these keys from sort key `since` on, or completely.

        Returns keys that must be rebuilt completely.
        """
        keys = {tuple(key.values()) for key in again.column("key").to_pylist()}
        rows = exploded(self.changes)
        has_key = [tuple(key.values()) in keys for key in keys_of(rows).to_pylist()]
        of_keys = [tuple(row.values()) in keys for row in self.history.select(self._key).to_pylist()]
        seeds = self.history.filter(pa.array(of_keys, pa.bool_()))
        if since is None:
            seeds = seeds.slice(0, 0)
        else:
            has_key = [
                is_wanted and at >= since
                for is_wanted, at in zip(has_key, rows["sort_key"].to_pylist(), strict=True)
            ]
            ends = seeds.column("_next_sort_key")
            reaches = pc.or_kleene(pc.greater_equal(ends, since), pc.is_null(ends))
            seeds = seeds.filter(pc.and_(pc.less(seeds.column("_sort_key"), since), reaches))
        key_rows = rows.filter(pa.array(has_key))
        rebuilt = history.rebuilt(key_rows, seeds, emptied, self.contract, window)
        self._merge(rebuilt, keys, since)
        return rebuilt.again

    @property
    def _key(self) -> list[str]:
        return [c.name for c in self.contract.key]

    def _ended_before(self, came: pa.Table) -> pa.Table:
        """Returns keys whose row was alive, in a closed interval, at one of the truncates `came`.

        Each has the truncate's sort key.
        """
        rows = self.history.filter(self.history.column("_valid_to").is_valid()).to_pylist()
        ended = [
            {"key": {name: row[name] for name in self._key}, "sort_key": at}
            for row in rows
            for at in came.column("sort_key").to_pylist()
            if row["_sort_key"] < at < row["_next_sort_key"] and not row["_is_deleted"]
        ]
        schema = pa.schema([("key", row_type(self.contract.key)), ("sort_key", pa.binary())])
        return pa.Table.from_pylist(ended, schema)

    def _merge(
        self, new: History, again: Collection[tuple[Any, ...]] = (), since: bytes | None = None
    ) -> None:
        """Merges new intervals into the lake's tables.

        `again`: keys whose intervals are replaced: all of them, or those that end at sort key `since` or
        later.
        """
        key = self._key
        opened = {tuple(row[name] for name in key) for row in new.opened.select(key).to_pylist()}
        assert len(opened) == len(new.opened)
        is_open = ~valid(column(self.history, "_valid_to"))
        of_keys = [tuple(row.values()) for row in self.history.select(key).to_pylist()]
        ends = self.history.column("_next_sort_key").to_pylist()
        goes = np.array(
            [
                row_key in again and (since is None or end is None or end >= since)
                for row_key, end in zip(of_keys, ends, strict=True)
            ],
            np.bool_,
        )
        goes |= is_open & np.array([row_key in opened for row_key in of_keys], np.bool_)
        self.history = pa.concat_tables([self.history.filter(pa.array(~goes)), new.closed, new.opened])
        for gone in opened:
            self.current.pop(gone, None)
        for row in rows_of(current(new.opened, self.contract)):
            self.current[tuple(row[name] for name in key)] = row
        texts = [_key_text(self.contract, row_key) for row_key in again]
        places = zip(*(self.breaks.column(name).to_pylist() for name in ("key", "sort_key")), strict=True)
        stays = [text not in texts or (since is not None and at < since) for text, at in places]
        self.breaks = pa.concat_tables([self.breaks.filter(pa.array(stays, pa.bool_())), new.breaks])

    def shown(self, name: str) -> list[dict[str, Any]]:
        """Rows of `changes`, `history`, `current` or `breaks`, without columns that depend on the windows."""
        rows = rows_of(getattr(self, name)) if name != "current" else list(self.current.values())
        return sorted(({k: v for k, v in row.items() if k not in OF_THE_RUN} for row in rows), key=repr)


def _key_text(contract: Contract, key: tuple[Any, ...]) -> str:
    from changeledger.kernels.display import keys_as_json  # noqa: PLC0415

    kinds = row_type(contract.key)
    return keys_as_json({f.name: pa.array([v], f.type) for f, v in zip(kinds, key, strict=True)})[0]
