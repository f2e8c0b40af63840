"""Counts of a feed's tables in the lake, by the columns that are counted by: no other column is read."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.config.feed import Feed
from changeledger.lake import catalog
from changeledger.model import change

# The flags that warn about a change; the others say what it is.
WARNINGS: Final = (
    change.ORDER_AMBIGUOUS, change.MASK_DISAGREES, change.POSITION_UNKNOWN, change.OLD_KEY_UNKNOWN,
)  # fmt: skip


def pending(feed: Feed) -> tuple[tuple[str, int, datetime], ...]:
    """(reason, messages, waiting since) of pending messages, the oldest first."""
    rows = columns(feed.lake.pending, "reason", "since")
    counts = rows.group_by("reason").aggregate([([], "count_all"), ("since", "min")]).to_pylist()
    waiting = ((row["reason"], row["count_all"], row["since_min"]) for row in counts)
    return tuple(sorted(waiting, key=lambda reason: reason[2]))


def breaks(feed: Feed) -> tuple[tuple[str, str, int], ...]:
    """(table, kind, changes) of published breaks of the image chain."""
    rows = columns(feed.lake.image_chain_breaks, "table", "kind")
    counts = rows.group_by(rows.column_names).aggregate([([], "count_all")]).to_pylist()
    return tuple(sorted(tuple(row.values()) for row in counts))


def warnings(feed: Feed) -> dict[str, int]:
    """By flag: published changes that carry it."""
    counts: Counter[str] = Counter()
    for names in feed.names.values():
        flags = columns(names.changes, "flags").column("flags")
        for counted in pc.value_counts(flags.combine_chunks().flatten()).to_pylist():
            counts[counted["values"]] += counted["counts"]
    return {flag: counts[flag] for flag in WARNINGS if counts[flag]}


def columns(table: str, *names: str, most: int | None = None) -> pa.Table:
    """Columns of a published table, of at most so many rows; no rows if it is not there."""
    published = catalog.find(table)
    if published is None:
        kinds = {"since": pa.timestamp("us", "UTC"), "flags": pa.list_(pa.string())}
        return pa.schema([(name, kinds.get(name, pa.string())) for name in names]).empty_table()
    return published.scan(selected_fields=names, limit=most).to_arrow()
