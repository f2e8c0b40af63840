"""Finds rows that have a value, by searching a table's history file by file, for a short time only."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from pyiceberg.expressions import Or

from changeledger.lake import catalog
from changeledger.lake.conditions import is_equal
from changeledger.lake.file_scans import FileReader
from changeledger.model.errors import ConfigError
from changeledger.model.table_names import TableNames
from changeledger.state.cells import key_texts, typed
from changeledger.state.life import Place

MOST: Final = 50
SECONDS: Final = 2.0


@dataclass(frozen=True)
class Hits:
    """Keys of rows that have or had the value. `looked_at` of the `files` were read in the time."""

    keys: Sequence[dict[str, str]]
    looked_at: int
    files: int

    @property
    def is_whole(self) -> bool:
        return self.looked_at == self.files and len(self.keys) < MOST


def search(place: Place, text: str, seconds: float = SECONDS) -> Hits:
    """Searches for whole values, in each column that can hold the value."""
    table = catalog.find(TableNames.of(place.feed, place.table).history)
    conditions = [is_equal(name, value) for name, value in _values(place, text)]
    if table is None or not conditions:
        return Hits((), 0, 0)
    where = reduce(Or, conditions)
    scan, names = table.scan(where), [column.name for column in place.contract.key]
    reader = FileReader.of(scan, scan.projection().select(*names))
    tasks, until, looked_at = list(scan.plan_files()), time.monotonic() + seconds, 0
    keys: dict[tuple[str, ...], dict[str, str]] = {}
    for task in tasks:
        if time.monotonic() > until or len(keys) >= MOST:
            break
        for row in (row for batch in reader.batches(task) for row in batch.to_pylist()):
            key = key_texts({name: row[name] for name in names})
            keys.setdefault(tuple(key.values()), key)
        looked_at += 1
    return Hits(list(keys.values())[:MOST], looked_at, len(tasks))


def _values(place: Place, text: str) -> list[tuple[str, Any]]:
    typed_values = []
    for column in place.contract.columns:
        # In pyiceberg, a dot leads into a struct.
        if "." in column.name:
            continue
        try:
            typed_values.append((column.name, typed(text, column)))
        except ConfigError:
            continue
    return typed_values
