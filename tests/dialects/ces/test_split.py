"""An event says the same however it was cut, and whatever the order in which its pieces come."""

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
from changeledger.kernels.arrow import MESSAGE
from sourcelab.ces import messages
from sourcelab.log import simulate
from sourcelab.messages import Message
from tests.dialects.ces.decoding import decoded
from tests.dialects.ces.test_cases import ALL

CASE = next(case for case in ALL if case.folder.name == "only_changed_columns")
WHOLE: dict[str, Any] = json.loads(CASE.messages.column("value")[0].as_py())
DATA: str = WHOLE["data"]
CUTS = st.sets(st.integers(1, len(DATA) - 1), min_size=1, max_size=5).map(sorted)
NOT_COMPARED = {"source_position", "paired_source_position"}


def window(messages: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    rows = [
        {"topic": "shop.changes", "partition": at % 3, "offset": at, "timestamp": None, "key": None,
         "value": json.dumps(one).encode(), "headers": []}
        for at, one in enumerate(messages)
    ]  # fmt: skip
    known = {CASE.stated.table: CASE.stated} if CASE.stated else {}
    batches = decoded(pa.RecordBatch.from_pylist(rows, MESSAGE), CASE.feed, known, CASE.stated)
    return {row["source_position"]["offset"]: row for batch in batches for row in batch.to_pylist()}


def change(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in NOT_COMPARED}


EXPECTED = change(window([WHOLE])[0])


def segments(cuts: list[int], first: int, in_base64: bool) -> list[dict[str, Any]]:
    ends = [0, *cuts, len(DATA)]
    pieces = [DATA[one:other] for one, other in pairwise(ends)]
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
    again = rng.choice(parts)
    sent = [*parts, again]
    rng.shuffle(sent)
    found = window(sent)
    assert sorted(found) == list(range(len(sent)))
    changes = [row for row in found.values() if row["disposition"] == "change"]
    assert [change(row) for row in changes] == [EXPECTED]
    rest = [row for row in found.values() if row["disposition"] != "change"]
    assert sorted(row["disposition"] for row in rest) == ["duplicate", *["paired"] * len(cuts)]
    paired = [row["paired_source_position"] for row in rest if row["disposition"] == "paired"]
    assert all(one == changes[0]["source_position"] for one in paired)


@settings(max_examples=30, deadline=None)
@given(cuts=CUTS, first=st.sampled_from([0, 1]), rng=st.randoms())
def test_all_wait_while_one_lacks(cuts: list[int], first: int, rng: Any) -> None:
    parts = segments(cuts, first, in_base64=False)
    parts.remove(rng.choice(parts))
    found = window(parts)
    assert {(row["disposition"], row["reason"]) for row in found.values()} == {
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
    """What messages became, by their place in the stream; they are spread over three partitions."""
    rows = [
        {"topic": m.topic, "partition": at % 3, "offset": at, "timestamp": None, "headers": []}
        | {"key": m.key, "value": m.value}
        for at, m in sent
    ]
    found: dict[int, dict[str, Any]] = {}
    for batch in decoded(pa.RecordBatch.from_pylist(rows, MESSAGE), FEED, {}):
        for row in batch.to_pylist():
            at = row["source_position"]["offset"]
            assert at not in found, "a record has one outcome"
            found[at] = {name: row.get(name) for name in COMPARED}
    return found


def test_a_split_event_is_joined_over_partitions_and_windows() -> None:
    whole = results(enumerate(messages(LOG, from_tx=1)))
    parts = list(enumerate(messages(LOG, from_tx=1, generation="captured", split_at=700)))
    assert len(parts) > 2 * len(whole)
    # The first window ends in the midst of the stream; every other segment comes late.
    early = [one for one in parts if one[0] % 2]
    late = [one for one in parts if not one[0] % 2]
    first = results(early)
    assert len(first) == len(early)
    waiting = {at for at, row in first.items() if row["disposition"] == "pending"}
    assert {first[at]["reason"] for at in waiting} == {"split_incomplete"}
    second = results([*late, *(one for one in early if one[0] in waiting)])
    assert len(second) == len(late) + len(waiting)
    rows = [*first.values(), *second.values()]
    joined = [row for row in rows if row["disposition"] == "change"]
    by_position = sorted(joined, key=lambda row: bytes(row["sort_key"]))
    assert by_position == sorted(whole.values(), key=lambda row: bytes(row["sort_key"]))
    rest = Counter(row["disposition"] for row in rows)
    assert rest["paired"] + rest["change"] == len(parts)
