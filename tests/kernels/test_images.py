"""Row images: an unknown value is a gap, not NULL, and is not compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from changeledger.kernels import images
from changeledger.kernels.arrow import arrow_type
from changeledger.kernels.cells import KNOWN, NOT_CAPTURED, UNAVAILABLE
from changeledger.kernels.images import Image
from changeledger.model import change
from changeledger.model.contract import Column, Contract

CONTRACT = Contract(
    table="dbo.t",
    columns=(
        Column(name="id", type="int", ordinal=1, nullable=False, key_position=2),
        Column(name="a.b", type="nvarchar(50)", ordinal=2, key_position=1),
        Column(name="select", type="nvarchar(50)", ordinal=3),
        Column(name="doc", type="varbinary(max)", ordinal=4),
    ),
)
NAMES = CONTRACT.names
WORDS = {UNAVAILABLE: change.UNAVAILABLE, NOT_CAPTURED: change.NOT_CAPTURED}
STATES = st.lists(st.lists(st.sampled_from([KNOWN, KNOWN, *WORDS]), min_size=4, max_size=4), min_size=1)


def image(rows: list[tuple[Any, ...] | None], gaps: list[dict[str, int] | None] | None = None) -> Image:
    """An image of each row. `gaps`: for each row, the states of its unknown columns."""
    none = (None,) * len(NAMES)
    columns = zip(*(row or none for row in rows), strict=True)
    cells = [
        pa.array(list(values), arrow_type(c.spark_type))
        for c, values in zip(CONTRACT.columns, columns, strict=True)
    ]
    states = [[(row_gaps or {}).get(name, KNOWN) for name in NAMES] for row_gaps in gaps or []]
    present = np.array([row is not None for row in rows])
    return Image(present, cells, np.array(states, np.uint8) if gaps else None)


def test_what_differs_where_both_sides_are_known() -> None:
    gap = {"select": UNAVAILABLE}
    rows = [
        ((1, "x", "y", b"z"), (1, "x", "y", b"z"), None, None, []),
        ((1, "x", "y", None), (2, None, "Y", b"z"), None, None, ["id", "a.b", "select", "doc"]),
        ((1, "x", None, None), (1, "X", "y", None), gap, None, ["a.b"]),
        ((1, None, "y", None), (1, None, None, None), None, gap, []),
        ((1, "x", None, None), (1, "x", None, b""), gap, gap, ["doc"]),
        # No difference is known. A gap on both sides means that the value was kept; a gap in the new image
        # only is undecided.
        ((1, "x", None, b"z"), (1, "x", None, b"z"), gap, gap, []),
        ((1, "x", None, b"z"), (1, "x", "y", b"z"), gap, None, None),
        (None, (1, "x", "y", b"z"), None, None, None),
        ((1, "x", "y", b"z"), None, None, None, None),
    ]
    before, after, gaps_before, gaps_after, expected = map(list, zip(*rows, strict=True))
    changed = images.changed(image(before, gaps_before), image(after, gaps_after), NAMES)
    assert changed.to_pylist() == expected


@given(STATES)
def test_gaps_are_read_as_they_are_written(states: list[list[int]]) -> None:
    after = Image(np.ones(len(states), np.bool_), [], np.array(states, np.uint8))
    gaps = images.gaps(after, NAMES)
    expected = [
        [(name, WORDS[state]) for name, state in zip(NAMES, row, strict=True) if state != KNOWN]
        for row in states
    ]
    assert gaps.to_pylist() == [row or None for row in expected]
    read_back = images.states(gaps, NAMES)
    assert (states if read_back is None else read_back.tolist()) == states
    assert (read_back is None) == (not any(map(any, states)))


def test_an_image_that_is_not_there_has_no_gaps() -> None:
    gaps: list[dict[str, int] | None] = [{"doc": UNAVAILABLE}, {"doc": UNAVAILABLE}]
    after = image([None, (1, "x", "y", None)], gaps)
    assert images.gaps(after, NAMES).to_pylist() == [None, [("doc", change.UNAVAILABLE)]]
    assert images.struct(after, CONTRACT.columns).to_pylist() == [
        None,
        {"id": 1, "a.b": "x", "select": "y", "doc": None},
    ]


def test_the_key_is_in_its_own_order() -> None:
    cells = images.key(image([(1, "x", "y", None)]), CONTRACT)
    assert [cell.to_pylist() for cell in cells] == [["x"], [1]]
