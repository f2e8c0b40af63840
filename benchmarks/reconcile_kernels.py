"""Measures resolving a window and building its history in kernels, without Spark: CPU seconds by step.

    python -m benchmarks.reconcile_kernels 1000000

The table has ten columns. 35 % of the changes are inserts, 50 % updates with both images, 10 % deletes, 5 %
updates of a key as delete and insert; 0.5 % are delivered again. The last window updates each open row.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.arrow import INSTANT, fixed_width, history_schema, ledger_schema
from changeledger.kernels.lsn import big_endian
from changeledger.model.contract import Column, Contract
from changeledger.reconcile.buckets import current
from changeledger.reconcile.effects import exploded
from changeledger.reconcile.history import History, Published, continued
from changeledger.reconcile.resolve import resolve

TYPES = ("bigint", "int", "nvarchar(40)", "nvarchar(40)", "nvarchar(40)", "decimal(18,4)", "datetime2(3)",
         "date", "bit", "float")  # fmt: skip
CONTRACT = Contract(
    table="dbo.orders",
    columns=tuple(
        Column(name=f"c{at}", type=kind, ordinal=at + 1, key_position=1 if at == 0 else 0)
        for at, kind in enumerate(TYPES)
    ),
)


def ledger(number: int, window: int) -> pa.Table:
    """Returns a window's rows: each of its keys is inserted, updated and perhaps deleted."""
    rng = np.random.default_rng(window)
    keys = int(number * 0.36)
    updates = rng.poisson(1.4, keys)
    deletes = rng.random(keys) < 0.28
    lengths = 1 + updates + deletes
    key = np.repeat(np.arange(keys), lengths) + window * 10_000_000
    version = np.arange(len(key)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    operation = np.where(version == 0, 0, 1)
    operation[np.cumsum(lengths)[deletes] - 1] = 2
    order = np.lexsort((version, np.repeat(rng.random(keys), lengths) + version * 0.2))
    key, version, operation = key[order], version[order], operation[order]
    # One insert in seven is the second half of an update of a key that was never seen before.
    halves = np.flatnonzero((operation == 0) & (rng.random(len(key)) < 0.14))
    at = np.concatenate((np.arange(len(key)), halves - 0.5))
    key = np.concatenate((key, key[halves] + 1_000_000_000))
    version = np.concatenate((version, version[halves] + 1))
    operation = np.concatenate((operation, np.full(len(halves), 2)))
    place = np.ceil(at).astype(np.int64)
    again = rng.choice(len(key), len(key) // 200, replace=False)
    rows = np.concatenate((np.argsort(at, kind="stable"), again))
    return _table(key[rows], version[rows], operation[rows], place[rows] + window * 10_000_000, window)


def _table(
    key: np.ndarray, version: np.ndarray, operation: np.ndarray, place: np.ndarray, window: int
) -> pa.Table:
    size, schema = len(key), ledger_schema(CONTRACT)
    lsn = fixed_width(big_endian(place, 10))
    rank = np.array([2, 4, 1], np.uint8)[operation][:, None]
    sort_key = np.hstack([big_endian(place, 10), big_endian(place, 10), big_endian(place * 0, 8), rank])
    ids = pc.binary_join_element_wise(
        *(pa.array(part).cast(pa.string()) for part in (key, operation, version)), "-----------------"
    )
    by_name = {
        "change_id": ids,
        "operation": pa.array(["insert", "update", "delete"]).take(pa.array(operation)),
        "key": pa.StructArray.from_arrays([pa.array(key)], ["c0"]),
        "before": _image(key, version - 1, operation != 0),
        "after": _image(key, version, operation != 2),
        "commit_lsn": lsn,
        "change_lsn": lsn,
        "sort_key": fixed_width(sort_key),
        "committed_at": pa.array(place * 1000 + 1_700_000_000_000_000).view(INSTANT),
        "source_position": pa.StructArray.from_arrays(
            [pa.repeat("orders", size), pa.array(np.zeros(size, np.int32)), pa.array(np.arange(size)),
             pa.nulls(size, pa.binary())], fields=list(schema.field("source_position").type)
        ),
        "window_id": pa.repeat(f"w{window}", size),
    }  # fmt: skip
    return pa.table([by_name.get(f.name, pa.nulls(size, f.type)) for f in schema], schema=schema)


def _image(key: np.ndarray, version: np.ndarray, present: np.ndarray) -> pa.StructArray:
    kind = ledger_schema(CONTRACT).field("after").type
    text = pa.array(key).cast(pa.string())
    number = pa.array(version.astype(np.int32))
    name = pc.binary_join_element_wise("customer of order", text, number.cast(pa.string()), " ")
    cells = {"bigint": pa.array(key), "int": number, "nvarchar(40)": name, "decimal(18,4)": number,
             "datetime2(3)": pa.array(key * 1000), "date": number, "bit": pa.array(version % 2 == 0),
             "float": pa.array(key * 0.5)}  # fmt: skip
    columns = [_as(cells[sql], field.type) for sql, field in zip(TYPES, kind, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=pa.array(~present))


def _as(cells: pa.Array, kind: pa.DataType) -> pa.Array:
    return cells.view(kind) if pa.types.is_timestamp(kind) or pa.types.is_date(kind) else cells.cast(kind)


@contextmanager
def timed(what: str) -> Iterator[None]:
    begun = time.process_time()
    yield
    print(f"{what:45}{time.process_time() - begun:8.2f} CPU s")


def updates(opened: pa.Table, window: int) -> pa.Table:
    """Returns one update of each live row."""
    alive = opened.filter(pc.invert(opened.column("_is_deleted")))
    key, version = (alive.column(name).to_numpy() for name in ("c0", "c1"))
    chosen = np.random.default_rng(window).permutation(len(key))
    operation, place = np.ones(len(key), np.int64), np.arange(len(key)) + window * 10_000_000
    return _table(key[chosen], version[chosen].astype(np.int64) + 1, operation, place, window)


def carried(new: pa.Table, published: pa.Table, opened: pa.Table, window: str) -> tuple[pa.Table, History]:
    none = ledger(0, 0)
    places = none.select(["key", "sort_key"])
    known = Published(opened, places, places)
    print(f"{window}: {len(new)} changes, {len(published)} published near them, {len(opened)} open intervals")
    with timed("resolve"):
        resolved = resolve(new, published, CONTRACT, window)
    with timed("explode"):
        rows = exploded(resolved.changes)
    with timed("intervals, image chain"):
        history = continued(rows, known, none, CONTRACT, window)
    with timed("current"):
        alive = current(history.opened, CONTRACT)
    print(f"  {len(resolved.duplicates)} duplicates, "
          f"{len(history.closed)} closed, {len(history.opened)} open, {len(alive)} alive, "
          f"{len(history.breaks)} breaks, {len(history.again)} keys again")  # fmt: skip
    return resolved.changes, history


def main(number: int) -> None:
    first, none = ledger(number, 1), ledger(0, 0)
    nothing = history_schema(CONTRACT).empty_table()
    for window in ("cold", "warm"):
        changes, history = carried(first, none, nothing, window)
    carried(
        updates(history.opened, 2), changes.slice(0, number // 100), history.opened, "updates of what is open"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
