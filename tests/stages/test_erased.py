"""A run that reads records again from before a key was erased says so."""

from __future__ import annotations

from typing import Any

import pytest

from changeledger.stages.extraction.erased import begins_before


@pytest.mark.parametrize(
    ("start", "released", "is_before"),
    [
        ({"t": {"0": 3}}, {"t": {"0": 4}}, True),
        ({"t": {"0": 4, "1": 7}}, {"t": {"0": 4}}, False),
        ({"new": {"0": 0}}, {"t": {"0": 4}}, False),
        ({"dbo.t": "0000002A"}, {"dbo.t": "0000002B"}, True),
        ({"dbo.t": "0000002B"}, {"dbo.t": "0000002B"}, False),
        ({"dbo.t": None}, {"dbo.t": "0000002B"}, False),
        ({}, {}, False),
    ],
)
def test_whether_a_window_reads_what_was_released(
    start: dict[str, Any], released: dict[str, Any], is_before: bool
) -> None:
    assert begins_before(start, released) is is_before
