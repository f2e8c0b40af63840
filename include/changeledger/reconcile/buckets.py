"""Kernels that compute the history of a bucket of keys: tables by name in, tables by name out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import order
from changeledger.kernels.arrow import column, flags_of, history_schema, ledger_schema, row_type, table_schema
from changeledger.kernels.hashed import Hashes, by, hash_of
from changeledger.kernels.rows import as_batch
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.reconcile import history
from changeledger.reconcile.effects import LEAVES, exploded, keys_of
from changeledger.reconcile.history import History, Published

# Inputs: exploded ledger rows; and what is published: open intervals, positions of snapshot rows, and places
# (key and sort key) that are rebuilt in any case.
CHANGES: Final = "changes"
OPENED: Final = "opened"
SHOWN: Final = "shown"
AGAIN: Final = "again"
# Outputs, besides AGAIN: rows of the two tables, keys of open intervals, and breaks of the image chain.
HISTORY: Final = "history"
CURRENT: Final = "current"
KEYS: Final = "keys"
BREAKS: Final = "breaks"


def exploded_schema(contract: Contract) -> pa.Schema:
    return ledger_schema(contract).append(pa.field(LEAVES, pa.bool_()))


def places_schema(contract: Contract) -> pa.Schema:
    """Returns the schema of places: a key and a sort key."""
    return pa.schema([("key", row_type(contract.key)), ("sort_key", pa.binary())])


def outputs(contract: Contract) -> dict[str, pa.Schema]:
    history_rows = history_schema(contract)
    return {
        HISTORY: history_rows,
        CURRENT: pa.schema([history_rows.field(name) for name, _ in change.current_columns(contract)]),
        KEYS: pa.schema([history_rows.field(c.name) for c in contract.key]),
        BREAKS: table_schema(change.BREAK_COLUMNS),
        AGAIN: places_schema(contract),
    }


# The bucket key of rows with a column `key`.
KEY: Final = by("key")


def key_of_changes(exploded: pa.RecordBatch) -> Hashes:
    """Hashes the key that the effect is on: for a row that leaves, that is `previous_key`."""
    leaves = flags_of(exploded.column(LEAVES))
    return np.where(leaves, *(hash_of([exploded.column(side)]) for side in ("previous_key", "key")))


def exploded_batch(changes: pa.RecordBatch) -> pa.RecordBatch:
    """Applies `exploded` to a batch."""
    return as_batch(exploded(pa.Table.from_batches([changes])))


def continued(
    tables: Mapping[str, pa.Table], truncates: pa.Table, contract: Contract, window_id: str
) -> Mapping[str, pa.Table]:
    """Continues history from what is published. `truncates` are those of the whole ledger."""
    published = Published(tables[OPENED], tables[SHOWN], tables[AGAIN])
    return _outputs(history.continued(tables[CHANGES], published, truncates, contract, window_id), contract)


def rebuilt(
    tables: Mapping[str, pa.Table], truncates: pa.Table, contract: Contract, window_id: str
) -> Mapping[str, pa.Table]:
    """Rebuilds the history of the keys in AGAIN from a position on.

    CHANGES begin at that position; OPENED are the intervals that contain it. Both may have rows of other
    keys.
    """
    changes, opened = tables[CHANGES], tables[OPENED]
    keys = column(tables[AGAIN], "key").flatten()
    of_keys = changes.filter(pa.array(order.are_among(keys_of(changes).flatten(), keys)))
    cells = [column(opened, c.name) for c in contract.key]
    seeds = opened.filter(pa.array(order.are_among(cells, keys)))
    return _outputs(history.rebuilt(of_keys, seeds, truncates, contract, window_id), contract)


def _outputs(of_keys: History, contract: Contract) -> Mapping[str, pa.Table]:
    return {
        HISTORY: pa.concat_tables([of_keys.closed, of_keys.opened]),
        CURRENT: current(of_keys.opened, contract),
        KEYS: of_keys.opened.select([c.name for c in contract.key]),
        BREAKS: of_keys.breaks,
        AGAIN: of_keys.again,
    }


def current(opened: pa.Table, contract: Contract) -> pa.Table:
    """Returns the current rows: the open intervals that are not deleted."""
    names = [name for name, _ in change.current_columns(contract)]
    return opened.filter(pc.invert(opened.column("_is_deleted"))).select(names)
