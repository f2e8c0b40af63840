"""Facts of a discovery: the few messages of a window from which its plan is made.

The facts are the messages at both ends of each partition, and the first and the last message of each group
that a dialect forms. Merging the facts of two parts of a window gives the facts of both, so that Spark finds
them per partition and the driver merges them. How a window is cut changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.arrow import Bools, flags_of, with_column
from changeledger.kernels.rows import as_batch

# Number of offsets at each end of a partition.
EACH_END = 20
# Limit of the groups of one table; a connector has one schema at a time. For a table with more groups, the
# last messages can depend on how the window was cut. The schemas of a registry have no limit.
_MOST_GROUPS = 64
# `table` and `group` are set for the first and the last message of each group; messages with a registry's
# schema have no `table`. `framed`: whether the message begins with a schema id.
FACTS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("framed", pa.bool_()),
        ("table", pa.string()),
        ("group", pa.string()),
    ]
)


class Sample(NamedTuple):
    """A raw message from which the table of its topic and the columns are learned."""

    topic: str
    key: bytes | None
    value: bytes | None


def merged(facts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Merges the facts of all parts, ordered by topic, offset and partition."""
    table = pa.Table.from_batches(facts, FACTS)
    chosen_of_groups = _first_or_last(table)
    for name in ("table", "group"):
        only = pc.if_else(pa.array(chosen_of_groups), table[name], pa.scalar(None, pa.string()))
        table = with_column(table, name, only)
    keep = np.flatnonzero(at_ends(table) | chosen_of_groups)
    order = [("topic", "ascending"), ("offset", "ascending"), ("partition", "ascending")]
    return as_batch(table.take(pa.array(keep)).sort_by(order))


def bounds(facts: pa.Table) -> pa.Table:
    """Returns the first and the last offset of each partition, over messages that are not framed."""
    plain = facts.filter(pc.invert(facts["framed"]))
    return plain.group_by(["topic", "partition"], use_threads=False).aggregate(
        [("offset", "min"), ("offset", "max")]
    )


def at_ends(facts: pa.Table) -> Bools:
    """Returns which messages are within `EACH_END` offsets of an end of their partition."""
    place = ["topic", "partition"]
    numbered = facts.select([*place, "offset", "framed"]).append_column(
        "row", pa.array(np.arange(len(facts)))
    )
    joined = numbered.join(bounds(facts), place, join_type="inner", use_threads=False)
    near = pc.or_(
        pc.less(joined["offset"], pc.add(joined["offset_min"], EACH_END)),
        pc.greater(joined["offset"], pc.subtract(joined["offset_max"], EACH_END)),
    )
    rows = joined.filter(pc.and_(near, pc.invert(joined["framed"])))["row"].to_numpy()
    is_at_end = np.zeros(len(facts), np.bool_)
    is_at_end[rows] = True
    return is_at_end


def _first_or_last(facts: pa.Table) -> Bools:
    grouped = facts.select(["topic", "table", "group", "offset", "partition"]).append_column(
        "row", pa.array(np.arange(len(facts)))
    )
    grouped = grouped.filter(pc.is_valid(grouped["group"]))
    in_order = grouped.sort_by([("offset", "ascending"), ("partition", "ascending")])
    groups = in_order.group_by(["topic", "group", "table"], use_threads=False).aggregate(
        [("row", "first"), ("row", "last")]
    )
    is_first_or_last = np.zeros(len(facts), np.bool_)
    for end in ("row_first", "row_last"):
        is_first_or_last[groups[end].to_numpy()] = True
    return is_first_or_last & flags_of(pc.is_in(_names(facts), _that_count(groups)))


def _that_count(groups: pa.Table) -> pa.Array:
    """Returns the names of the groups that count: the first `_MOST_GROUPS` of each table in each topic.

    Groups without a table all count.
    """
    counts: Counter[tuple[str, str | None]] = Counter()
    kept = []
    for name, row in zip(_names(groups).to_pylist(), groups.to_pylist(), strict=True):
        place = row["topic"], row["table"]
        counts[place] += 1
        if row["table"] is None or counts[place] <= _MOST_GROUPS:
            kept.append(name)
    return pa.array(kept, pa.string())


def _names(facts: pa.Table) -> pa.Array:
    return pc.binary_join_element_wise(facts["topic"], facts["group"], "\n").combine_chunks()
