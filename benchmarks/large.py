"""The input of windows on a published table of many rows: 10,000 updates each, all over it or of its last rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.stream import event
from benchmarks.topics import fill

CHANGES = 10_000
# One makes the tables, another warms the engine.
WINDOWS = ("made", "warm", "spread", "recent")
_CELLS = {"n1": 1, "n2": 2, "amount": "3.50", "d": 20_000, "ts": 1_786_119_900_000_000, "flag": True}


def filled(bootstrap: str, rows: int, home: Path, subject: str) -> str:
    """The topic: inserts of rows whose keys follow those of the table, and three windows of updates of its rows."""
    topic, messages = f"{subject}_{rows}.dbo.t", home / "messages.jsonl"
    with messages.open("wb") as out:
        out.writelines(_messages(rows))
    fill(bootstrap, topic, messages, len(WINDOWS))
    return topic


def _row(key: int, name: str | None = None) -> dict[str, Any]:
    return {"id": key, "name": name or f"customer {key}", **_CELLS, "city": "Bern", "x": 0.25}


def _messages(rows: int) -> Iterator[bytes]:
    """As many inserts as a window has updates, then three windows of updates, of other keys each."""
    for at in range(1, CHANGES + 1):
        yield event("t", at, "c", (None, _row(rows + at)))
    spread = Random(1).sample(range(rows - CHANGES), 2 * CHANGES)
    for at, key in enumerate([*spread, *range(rows - CHANGES, rows)], CHANGES + 1):
        yield event("t", at, "u", (_row(key), _row(key, f"changed {key}")))
