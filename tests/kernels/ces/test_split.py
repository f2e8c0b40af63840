"""An event says the same however it was cut, and whatever the order in which its pieces come."""

from __future__ import annotations

import json
from base64 import b64encode
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from changeledger.kernels.arrow import MESSAGE
from tests.kernels.ces.decoding import decoded
from tests.kernels.ces.test_cases import ALL

CASE = next(case for case in ALL if case.folder.name == "only_changed_columns")
WHOLE: dict[str, Any] = json.loads(CASE.messages.column("value")[0].as_py())
DATA: str = WHOLE["data"]
CUTS = st.sets(st.integers(1, len(DATA) - 1), min_size=1, max_size=5).map(sorted)
NOT_COMPARED = {"record", "paired_record"}


def window(messages: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    rows = [
        {"topic": "shop.changes", "partition": at % 3, "offset": at, "timestamp": None, "key": None,
         "value": json.dumps(one).encode(), "headers": []}
        for at, one in enumerate(messages)
    ]  # fmt: skip
    known = {CASE.stated.table: CASE.stated} if CASE.stated else {}
    batches = decoded(pa.RecordBatch.from_pylist(rows, MESSAGE), CASE.feed, known, CASE.stated)
    return {row["record"]["offset"]: row for batch in batches for row in batch.to_pylist()}


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
    paired = [row["paired_record"] for row in rest if row["disposition"] == "paired"]
    assert all(one == changes[0]["record"] for one in paired)


@settings(max_examples=30, deadline=None)
@given(cuts=CUTS, first=st.sampled_from([0, 1]), rng=st.randoms())
def test_all_wait_while_one_lacks(cuts: list[int], first: int, rng: Any) -> None:
    parts = segments(cuts, first, in_base64=False)
    parts.remove(rng.choice(parts))
    found = window(parts)
    assert {(row["disposition"], row["reason"]) for row in found.values()} == {
        ("pending", "split_incomplete")
    }
