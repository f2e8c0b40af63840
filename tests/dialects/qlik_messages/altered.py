"""Messages of a table whose columns are dropped, added and retyped in mid-stream, with the expected rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from changeledger.kernels.arrow import MESSAGE

TABLE, TOPIC, PARTITIONS = "dbo.orders", "rep.dbo.orders", 3
NOON = datetime(2026, 8, 7, 12, tzinfo=UTC)
LARGE = "NCLOB"
# The task writes metadata to each partition of the data, to one of them, or to its own topic.
Metadata = Literal["each partition", "one partition", "own topic"]
Row = dict[str, Any]


class Truth(NamedTuple):
    """Expected content of a message: after image and changed columns. Cells that are not sent are missing."""

    operation: str
    row: Row
    changed: frozenset[str]


class Sent(NamedTuple):
    """A Kafka message without its offset. `truth`: None for metadata."""

    topic: str
    partition: int
    written_at: datetime
    value: bytes
    truth: Truth | None


@dataclass
class Table:
    """A table: its columns by name, in the order of their ordinals, and its rows by id."""

    rng: Random
    columns: dict[str, str] = field(default_factory=lambda: {"id": "INT4", "qty": "INT4", "name": "WSTRING"})
    rows: dict[int, Row] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    version: int = 1
    named: int = 0

    def alter(self, *, again: bool) -> None:
        """Drops a column, adds one (`again`: perhaps one that was dropped), or widens a number."""
        rng, others = self.rng, [name for name in self.columns if name != "id"]
        numbers = [name for name in others if self.columns[name] == "INT4"]
        kind = rng.choice(["drop", "add", "retype"])
        if kind == "drop" and len(others) > 1:
            name = rng.choice(others)
            self.dropped[name] = self.columns.pop(name)
            for row in self.rows.values():
                del row[name]
        elif kind == "retype" and numbers:
            self.columns[rng.choice(numbers)] = "INT8"
        else:
            self._add(rng.choice([*self.dropped, None]) if again else None)
        self.version += 1

    def _add(self, old: str | None) -> None:
        self.named += old is None
        name, kind = old or f"c{self.named}", self.rng.choice(["INT4", "WSTRING", LARGE])
        self.columns[name] = self.dropped.pop(name, kind)
        for row in self.rows.values():
            row[name] = None

    def value(self, name: str) -> Any:
        kind = self.columns[name]
        if self.rng.random() < 0.2:
            return None
        if kind in {"INT4", "INT8"}:
            return self.rng.randrange(2**31 if kind == "INT4" else 2**53)
        return self.rng.choice(["a", "b", "c", "ä"])

    def metadata(self, at: datetime) -> bytes:
        described = {
            name: {"ordinal": at, "type": kind, "length": 50, "primaryKeyPosition": int(name == "id")}
            for at, (name, kind) in enumerate(self.columns.items(), 1)
        }
        lineage = {"schema": "dbo", "table": "orders", "tableVersion": self.version, "timestamp": _iso(at)}
        return _enveloped("MD", {"lineage": lineage, "tableStructure": {"tableColumns": described}})

    def change(self, at: datetime, number: int) -> tuple[int, bytes, Truth]:
        """Returns the row's id, the message, and its expected content."""
        key = self.rng.randrange(6)
        before = self.rows.get(key)
        headers = _headers(at, number)
        if before is not None and self.rng.random() < 0.2:
            del self.rows[key]
            filler = dict.fromkeys(self.columns) | {"id": key}
            value = self._message(headers, "DELETE", {"id"}, filler)
            return key, value, Truth("delete", {"id": key}, frozenset())
        after = {"id": key} | {name: self.value(name) for name in self.columns if name != "id"}
        large = {name for name, kind in self.columns.items() if kind == LARGE}
        if before is None:
            self.rows[key] = dict(after)
            value = self._message(headers, "INSERT", set(after) - large, after)
            return key, value, Truth("insert", after, frozenset())
        after |= {name: old for name, old in before.items() if self.rng.random() < 0.5}
        changed = {name for name in after if after[name] != before[name]}
        self.rows[key] = dict(after)
        # Unchanged large values are not sent. Old large values are never sent.
        row = {name: value for name, value in after.items() if name in changed or name not in large}
        old = {name: None if name in large else value for name, value in before.items()}
        value = self._message(headers, "UPDATE", changed - large, row, old)
        return key, value, Truth("update", row, frozenset(changed - large))

    def _message(
        self, headers: Row, operation: str, changed: set[str], sent: Row, before: Row | None = None
    ) -> bytes:
        """`sent`: the cells that the column mask marks as sent."""
        data = {name: sent.get(name) for name in self.columns}
        masks = {"changeMask": self._mask(changed), "columnMask": self._mask(set(sent))}
        headers = headers | {"operation": operation} | masks
        return _enveloped("DT", {"headers": headers, "data": data, "beforeData": before})

    def _mask(self, names: set[str]) -> str:
        bits = sum(1 << at for at, name in enumerate(self.columns) if name in names)
        return f"{bits:0{2 * (len(self.columns) // 8 + 1)}X}"


def sent(seed: int, metadata: Metadata, *, again: bool) -> Iterator[Sent]:
    """Messages in the order in which the task writes them. Some are late, some are repeated.

    `again`: a dropped column can be added again. Then two versions have the same columns with other ordinals.
    Masks tell the versions apart; for a few messages, only the time of the metadata does. So the task neither
    lags nor repeats messages.
    """
    rng = Random(seed)
    table, now, spread = Table(rng), NOON, PARTITIONS
    history: list[list[Sent]] = [[] for _ in range(spread)]

    def described() -> Iterator[Sent]:
        targets = {"each partition": range(spread), "one partition": [0], "own topic": [0]}[metadata]
        topic = "rep.metadata" if metadata == "own topic" else TOPIC
        for partition in targets:
            yield Sent(topic, partition, now, table.metadata(now), None)

    yield from described()
    for number in range(1, 50):
        now += timedelta(seconds=rng.randrange(1, 50))
        chance = rng.random()
        if chance < 0.1:
            table.alter(again=again)
            yield from described()
        elif chance < 0.13:
            yield from described()
        elif chance < 0.2 and not again:
            # A task that resumes repeats its last messages.
            for messages in history:
                yield from (message._replace(written_at=now) for message in messages[-rng.randrange(1, 8) :])
        lag = timedelta(seconds=0 if again else rng.choice([0, 0, 1, 300]))
        key, value, truth = table.change(now - lag, number)
        delay = timedelta(hours=rng.random() < 0.2)
        message = Sent(TOPIC, key % spread, now + delay, value, truth)
        history[key % spread].append(message)
        yield message


def windows(
    messages: Sequence[Sent], cuts: Sequence[int]
) -> Iterator[tuple[pa.RecordBatch, list[Truth | None]]]:
    """Cuts the messages into windows: batches, with the expected content of each message."""
    offsets: dict[tuple[str, int], int] = {}
    ends = [*sorted(min(cut, len(messages)) for cut in cuts), len(messages)]
    for start, end in zip([0, *ends], ends, strict=False):
        rows = []
        for message in messages[start:end]:
            place = message.topic, message.partition
            offsets[place] = offsets.get(place, -1) + 1
            rows.append(
                {
                    "topic": message.topic,
                    "partition": message.partition,
                    "offset": offsets[place],
                    "key": None,
                }
                | {"timestamp": message.written_at, "value": message.value, "headers": []}
            )
        yield pa.RecordBatch.from_pylist(rows, MESSAGE), [message.truth for message in messages[start:end]]


def _headers(at: datetime, number: int) -> Row:
    return {
        "changeSequence": f"{at:%Y%m%d%H%M%S}00{number:019}",
        "timestamp": _iso(at),
        "streamPosition": f"0000002a:{number:08x}:0001",
        "transactionId": f"{number:032X}",
        "transactionEventCounter": 1,
        "transactionLastEvent": True,
    }


def _iso(at: datetime) -> str:
    return at.replace(tzinfo=None).isoformat(timespec="milliseconds")


def _enveloped(kind: str, message: Row) -> bytes:
    return json.dumps({"magic": "atMSG", "type": kind, "headers": None, "message": message}).encode()
