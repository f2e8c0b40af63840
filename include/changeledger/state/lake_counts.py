"""Counts rows of a feed's tables in the lake. Reads only the columns by which it counts."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.config.feed import Feed
from changeledger.lake import catalog
from changeledger.model import change

# The flags that warn about a change. The others only describe it.
WARNINGS: Final = (
    change.ORDER_AMBIGUOUS, change.MASK_DISAGREES, change.POSITION_UNKNOWN, change.OLD_KEY_UNKNOWN,
)  # fmt: skip


def pending(feed: Feed) -> tuple[tuple[str, int, datetime], ...]:
    """Returns (reason, messages, waiting since) of pending messages, the oldest first."""
    rows = columns(feed.lake.pending, "reason", "since")
    counts = rows.group_by("reason").aggregate([([], "count_all"), ("since", "min")]).to_pylist()
    waiting = ((row["reason"], row["count_all"], row["since_min"]) for row in counts)
    return tuple(sorted(waiting, key=lambda reason: reason[2]))


def breaks(feed: Feed) -> tuple[tuple[str, str, int], ...]:
    """Returns (table, kind, changes) of published breaks of the image chain."""
    rows = columns(feed.lake.image_chain_breaks, "table", "kind")
    counts = rows.group_by(rows.column_names).aggregate([([], "count_all")]).to_pylist()
    return tuple(sorted(tuple(row.values()) for row in counts))


def warnings(feed: Feed) -> dict[str, int]:
    """Returns the number of published changes with each flag."""
    counts: Counter[str] = Counter()
    for names in feed.names.values():
        flags = columns(names.changes, "flags").column("flags")
        for counted in pc.value_counts(flags.combine_chunks().flatten()).to_pylist():
            counts[counted["values"]] += counted["counts"]
    return {flag: counts[flag] for flag in WARNINGS if counts[flag]}


def columns(table: str, *names: str, most: int | None = None) -> pa.Table:
    """Returns columns of a published table, for at most `most` rows; no rows if the table does not exist."""
    published = catalog.find(table)
    if published is None:
        kinds = {"since": pa.timestamp("us", "UTC"), "flags": pa.list_(pa.string())}
        return pa.schema([(name, kinds.get(name, pa.string())) for name in names]).empty_table()
    return published.scan(selected_fields=names, limit=most).to_arrow()
