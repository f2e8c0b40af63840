"""A split event is decoded the same, wherever it is cut and in whatever order its segments arrive."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from changeledger.config.feed import Feed
from changeledger.dialects.ces.dialect import CES
from changeledger.kernels.arrow import MESSAGE
from sourcelab.ces import messages
from sourcelab.log import simulate
from sourcelab.messages import Message
from tests.dialects.golden import cases
from tests.dialects.reading import decoded

CASE = next(case for case in cases("ces") if case.folder.name == "only_changed_columns")
WHOLE: dict[str, Any] = json.loads(CASE.messages.column("value")[0].as_py())
DATA: str = WHOLE["data"]
CUTS = st.sets(st.integers(1, len(DATA) - 1), min_size=1, max_size=5).map(sorted)
NOT_COMPARED = {"source_position", "paired_source_position"}


def window(messages: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    rows = [
        {"topic": "shop.changes", "partition": at % 3, "offset": at, "timestamp": None, "key": None,
         "value": json.dumps(message).encode(), "headers": []}
        for at, message in enumerate(messages)
    ]  # fmt: skip
    batches = decoded(CES.kernel, pa.RecordBatch.from_pylist(rows, MESSAGE), CASE.feed, CASE.stated)
    return {row["source_position"]["offset"]: row for batch in batches for row in batch.to_pylist()}


def change(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in NOT_COMPARED}


EXPECTED = change(window([WHOLE])[0])


def segments(cuts: list[int], first: int, in_base64: bool) -> list[dict[str, Any]]:
    ends = [0, *cuts, len(DATA)]
    pieces = [DATA[start:end] for start, end in pairwise(ends)]
    if in_base64:
        pieces = [b64encode(piece.encode()).decode() for piece in pieces]
    return [
        {**WHOLE, "id": str(at), "data": piece, "segmentindex": first + at, "finalsegment": at == len(cuts)}
        for at, piece in enumerate(pieces)
    ]


@settings(max_examples=60, deadline=None)
@given(cuts=CUTS, first=st.sampled_from([0, 1]), in_base64=st.booleans(), rng=st.randoms())
def test_cut_anywhere_in_any_order(cuts: list[int], first: int, in_base64: bool, rng: Any) -> None:
    parts = segments(cuts, first, in_base64)
    repeated = rng.choice(parts)
    sent = [*parts, repeated]
    rng.shuffle(sent)
    by_offset = window(sent)
    assert sorted(by_offset) == list(range(len(sent)))
    changes = [row for row in by_offset.values() if row["disposition"] == "change"]
    assert [change(row) for row in changes] == [EXPECTED]
    others = [row for row in by_offset.values() if row["disposition"] != "change"]
    assert sorted(row["disposition"] for row in others) == ["duplicate", *["paired"] * len(cuts)]
    paired = [row["paired_source_position"] for row in others if row["disposition"] == "paired"]
    assert all(position == changes[0]["source_position"] for position in paired)


@settings(max_examples=30, deadline=None)
@given(cuts=CUTS, first=st.sampled_from([0, 1]), rng=st.randoms())
def test_segments_wait_for_a_missing_one(cuts: list[int], first: int, rng: Any) -> None:
    parts = segments(cuts, first, in_base64=False)
    parts.remove(rng.choice(parts))
    by_offset = window(parts)
    assert {(row["disposition"], row["reason"]) for row in by_offset.values()} == {
        ("pending", "split_incomplete")
    }


LOG = simulate(7, 3)
FEED = Feed.model_validate(
    {
        "feed": "golden", "dialect": "ces", "database": "shop", "connection": "shop",
        "source": {"topics": ["shop.changes"]}, "tables": [{"table": t.full_name} for t in LOG.tables],
    }
)  # fmt: skip
COMPARED = ("disposition", "reason", "operation", "key", "before", "after", "sort_key")


def results(sent: Iterable[tuple[int, Message]]) -> dict[int, dict[str, Any]]:
    """Results by index in the stream; messages are spread over three partitions."""
    rows = [
        {"topic": m.topic, "partition": at % 3, "offset": at, "timestamp": None, "headers": []}
        | {"key": m.key, "value": m.value}
        for at, m in sent
    ]
    by_offset: dict[int, dict[str, Any]] = {}
    for batch in decoded(CES.kernel, pa.RecordBatch.from_pylist(rows, MESSAGE), FEED):
        for row in batch.to_pylist():
            at = row["source_position"]["offset"]
            assert at not in by_offset, "a record has one outcome"
            by_offset[at] = {name: row.get(name) for name in COMPARED}
    return by_offset


def test_a_split_event_is_joined_over_partitions_and_windows() -> None:
    whole = results(enumerate(messages(LOG, from_tx=1)))
    parts = list(enumerate(messages(LOG, from_tx=1, generation="captured", split_at=700)))
    assert len(parts) > 2 * len(whole)
    # Every other segment arrives only in the second window.
    early = [part for part in parts if part[0] % 2]
    late = [part for part in parts if not part[0] % 2]
    first = results(early)
    assert len(first) == len(early)
    waiting = {at for at, row in first.items() if row["disposition"] == "pending"}
    assert {first[at]["reason"] for at in waiting} == {"split_incomplete"}
    second = results([*late, *(part for part in early if part[0] in waiting)])
    assert len(second) == len(late) + len(waiting)
    rows = [*first.values(), *second.values()]
    joined = [row for row in rows if row["disposition"] == "change"]
    by_position = sorted(joined, key=lambda row: bytes(row["sort_key"]))
    assert by_position == sorted(whole.values(), key=lambda row: bytes(row["sort_key"]))
    counts = Counter(row["disposition"] for row in rows)
    assert counts["paired"] + counts["change"] == len(parts)
