"""The input of the benchmarks: Debezium's messages of one table, and what must be published of them.

35 % of the messages are inserts, 50 % updates, 10 % deletes, 5 % updates of a key (`d` and `c`, which share a
position). Three changes share a transaction. 0.5 % are delivered again, and 0.5 % arrive late, by up to a
fifth of the stream. A message has some 614 bytes. `name` differs in each version of a row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.shapes import PLAIN, Cells, Shape

VERSION = pa.schema([("id", pa.int32()), ("name", pa.string())])
_INSERTS, _UPDATES, _DELETES = 0.35, 0.85, 0.95
_AGAIN = _LATE = 0.005
_FARTHEST = 0.2
Images = tuple[Cells | None, Cells | None]


@dataclass(frozen=True)
class Stream:
    """The files of a stream.

    `messages.jsonl` is in the order of arrival; `rows.parquet` and `versions.parquet` are the truth. Versions
    are the rows that a key has had, one for each insert, update and update of a key.
    """

    folder: Path
    shape: Shape

    @property
    def messages(self) -> Path:
        return self.folder / "messages.jsonl"

    @property
    def rows(self) -> Path:
        return self.folder / "rows.parquet"

    @property
    def versions(self) -> Path:
        return self.folder / "versions.parquet"


def stream(folder: Path, messages: int, table: str = "t", seed: int = 1, shape: Shape = PLAIN) -> Stream:
    """Returns the stream of that many messages, created once in its own folder."""
    kept = Stream(folder / f"{shape.name}-{table}-{messages}-{seed}", shape)
    if not kept.versions.exists():
        kept.folder.mkdir(parents=True, exist_ok=True)
        source = _Source(Random(seed), table, shape)
        lines = list(source.messages(messages))
        with kept.messages.open("wb") as out:
            out.writelines(_as_delivered(lines, Random(seed + 1)))
        rows = [shape.published(cells) for cells in source.alive.values()]
        pq.write_table(pa.Table.from_pylist(rows, shape.row), kept.rows)
        columns = [pa.array(list(column)) for column in zip(*source.versions, strict=True)]
        pq.write_table(pa.table(columns, names=VERSION.names).cast(VERSION), kept.versions)
    return kept


@dataclass
class _Source:
    """A table, and the messages that a connector writes of its changes."""

    rng: Random
    table: str
    shape: Shape
    alive: dict[int, Cells] = field(default_factory=dict)
    versions: list[tuple[int, str]] = field(default_factory=list)
    _keys: list[int] = field(default_factory=list)
    _number: int = 0

    def messages(self, number: int) -> Iterator[bytes]:
        """Yields this many messages, in the order of the changes."""
        written = 0
        while written < number:
            for message in self._change(left=number - written):
                written += 1
                yield message

    def _change(self, left: int) -> list[bytes]:
        rng, kind = self.rng, self.rng.random()
        self._number += 1
        if kind < _INSERTS or not self._keys:
            return [self._event("c", None, self._insert(self._number))]
        at = rng.randrange(len(self._keys))
        key = self._keys[at]
        before = self.alive[key]
        if kind < _UPDATES or (kind >= _DELETES and left < 2):
            after = {**before, "name": f"customer {self._number}"}
            after |= self.shape.drawn(self.shape.changing, rng)
            self.alive[key] = after
            self.versions.append((key, after["name"]))
            return [self._event("u", before, after)]
        self._keys[at] = self._keys[-1]
        self._keys.pop()
        del self.alive[key]
        gone = self._event("d", before, None)
        if kind < _DELETES:
            return [gone]
        moved = {**before, "id": self._number, "name": f"customer {self._number}"}
        return [gone, self._event("c", None, self._insert(self._number, moved), serial=2)]

    def _insert(self, key: int, cells: Cells | None = None) -> Cells:
        cells = cells or self._cells(key)
        self.alive[key] = cells
        self._keys.append(key)
        self.versions.append((key, cells["name"]))
        return cells

    def _cells(self, key: int) -> Cells:
        keyed = {"id": key, "name": f"customer {self._number}"}
        return keyed | self.shape.drawn(self.shape.columns, self.rng)

    def _event(self, op: str, before: Cells | None, after: Cells | None, serial: int | None = None) -> bytes:
        return event(self.table, self._number, op, (before, after), serial)


def event(table: str, at: int, op: str, images: Images, serial: int | None = None) -> bytes:
    """Returns the message of change number `at`, as a line. `images`: before and after."""
    source = {
        "version": "3.1.0.Final", "connector": "sqlserver", "name": "bench", "ts_ms": 1_786_119_900_883 + at // 3,
        "snapshot": "false", "db": "bench", "sequence": None, "schema": "dbo", "table": table,
        "change_lsn": f"0000002a:{at:08x}:0003", "commit_lsn": f"0000002a:{at // 3 * 3 + 3:08x}:0005",
        "event_serial_no": serial or 1 + (op == "u"),
    }  # fmt: skip
    whole: dict[str, Any] = {"before": images[0], "after": images[1], "source": source, "op": op}
    whole |= {"ts_ms": 1_786_119_901_883 + at, "transaction": None}
    whole |= {"ts_us": 1_786_119_901_883_000 + at, "ts_ns": 1_786_119_901_883_000_000 + at}
    return json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _as_delivered(lines: list[bytes], rng: Random) -> Iterator[bytes]:
    farthest = max(1, int(len(lines) * _FARTHEST))
    placed: list[tuple[float, bytes]] = []
    for place, line in enumerate(lines):
        later = place + rng.randrange(1, farthest + 1) + 0.5
        chance = rng.random()
        if chance < _AGAIN:
            placed.append((later, line))
        placed.append((later if chance >= 1 - _LATE else place, line))
    return (line for _, line in sorted(placed, key=lambda placement: placement[0]))
