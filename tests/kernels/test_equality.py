"""Cells that are written differently but have the same value, and cells that differ (docs/types.md)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from changeledger.kernels.arrow import arrow_type
from changeledger.kernels.equality import differ
from changeledger.model.contract import Column

# Type, two cells, and whether they differ.
CASES: list[tuple[str, Any, Any, bool]] = [
    ("int", 1, 1, False),
    ("int", 1, None, True),
    ("int", None, None, False),
    ("float", 0.0, -0.0, False),
    ("nvarchar(9)", "x", "x ", True),
    ("nvarchar(9)", "x", "X", True),
    ("char(5)", "x", "x    ", False),
    ("nchar(5)", "x\t", "x", True),
    ("char(5)", "", None, True),
    ("uniqueidentifier", "ab", "AB", False),
    ("time(7)", "16:25:00.1200000", "16:25:00.12", False),
    ("time(7)", "16:25:00.0000000", "16:25:00", False),
    ("time(0)", "16:25:00", "16:25:10", True),
    ("time(0)", "16:20:00", "16:2", True),
    ("datetimeoffset(3)", "2026-08-07T16:25:00.120+02:00", "2026-08-07 14:25:00.12 +00:00", False),
    ("datetimeoffset(7)", "2026-08-07T16:25:00.1234567+02:00", "2026-08-07T14:25:00.1234567Z", False),
    ("datetimeoffset(7)", "2026-08-07T16:25:00.1234567+02:00", "2026-08-07T16:25:00.1234568+02:00", True),
    ("datetimeoffset(0)", "2026-08-07T16:25:00+02:00", "2026-08-07T16:25:00+01:00", True),
    ("datetimeoffset(0)", "no point in time", "nor this", True),
]


@pytest.mark.parametrize(("kind", "first", "second", "differs"), CASES)
def test_two_cells(kind: str, first: Any, second: Any, differs: bool) -> None:
    column = Column(name="c", type=kind, ordinal=1)
    cells = [pa.array([value], arrow_type(column.spark_type)) for value in (first, second)]
    assert differ(cells[0], cells[1], column).tolist() == [differs]


def test_a_day_that_does_not_exist_is_compared_as_text_and_leaves_other_rows_alone() -> None:
    column = Column(name="c", type="datetimeoffset(0)", ordinal=1)
    first = pa.array(["2026-02-30T00:00:00Z", "2026-08-07T16:25:00+02:00", "2026-02-30T00:00:00Z"])
    second = pa.array(["2026-02-30 00:00:00 +00:00", "2026-08-07T14:25:00Z", "2026-02-28T00:00:00Z"])
    assert differ(first, second, column).tolist() == [True, False, True]
