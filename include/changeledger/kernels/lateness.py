"""How late changes can be read: from their commit at the source to the release that published them.

A release keeps `POINTS` commit times of its changes, evenly spaced by rank from the first to the last.
Percentiles over any number of releases follow from these, and the worst is exact.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.arrow import INSTANT, column, holding
from changeledger.model.change import CLOCK_SUSPECT, SNAPSHOT

POINTS: Final = 101


@dataclass(frozen=True)
class Committed:
    """A release's changes: how many, and `POINTS` of their commit times, in microseconds since 1970."""

    changes: int
    points: Sequence[int]


class Lateness(NamedTuple):
    changes: int
    p50: timedelta
    p95: timedelta
    worst: timedelta


def timed(rows: pa.Table) -> pa.ChunkedArray:
    """Returns the commit times that show how late a change is. Needs `operation`, `committed_at`, `flags`.

    Snapshot rows, and times from another clock than the source's, are left out.
    """
    is_suspect = holding(column(rows, "flags"), CLOCK_SUSPECT)
    is_change = pc.not_equal(rows.column("operation"), SNAPSHOT)
    return rows.column("committed_at").filter(pc.and_(is_change, pa.array(~is_suspect))).drop_null()


def committed(times: Iterable[pa.ChunkedArray]) -> dict[str, Any] | None:
    """Returns a `Committed` as JSON, or None without times."""
    chunks = [chunk.cast(INSTANT).cast(pa.int64()) for of_table in times for chunk in of_table.chunks]
    micros = pa.chunked_array(chunks, pa.int64()).to_numpy()
    if not len(micros):
        return None
    points = np.quantile(micros, np.linspace(0, 1, POINTS), method="inverted_cdf")
    return asdict(Committed(len(micros), [int(at) for at in points]))


def lateness(releases: Iterable[tuple[datetime, Committed]]) -> Lateness | None:
    """Computes the lateness of releases, given the time since when each can be read; None without changes."""
    # Arrays instead of lists: a year has a million numbers.
    points, sizes, counts, readable_at = array("q"), array("q"), array("q"), array("d")
    for readable, times in releases:
        points.extend(times.points)
        sizes.append(len(times.points))
        counts.append(times.changes)
        readable_at.append(readable.timestamp())
    changes = sum(counts)
    if not changes:
        return None
    seconds = np.repeat(readable_at, sizes) - np.frombuffer(points, np.int64) / 1e6
    weights = np.repeat(np.array(counts) / np.array(sizes), sizes)
    order = np.argsort(seconds)
    reached = np.cumsum(weights[order]) / changes
    late = np.maximum(seconds[order], 0)

    def part(share: float) -> timedelta:
        return timedelta(seconds=float(late[min(int(np.searchsorted(reached, share)), len(late) - 1)]))

    return Lateness(changes, part(0.5), part(0.95), timedelta(seconds=float(late[-1])))
