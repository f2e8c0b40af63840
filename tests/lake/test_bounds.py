"""Bounds of keys in Spark SQL, with expected values worked out by hand."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from changeledger.lake.writes import between


@pytest.mark.parametrize(
    ("cells", "kind", "bound"),
    [
        (pa.array([7, 3, None, 5]), "int", "`k` BETWEEN CAST('3' AS int) AND CAST('7' AS int)"),
        (pa.array(["b", "a'"]), "string", r"`k` BETWEEN CAST('a\'' AS string) AND CAST('b' AS string)"),
        (
            pa.array([Decimal("2.50"), Decimal("-1.00")]),
            "decimal(5,2)",
            "`k` BETWEEN CAST('-1.00' AS decimal(5,2)) AND CAST('2.50' AS decimal(5,2))",
        ),
        (
            pa.array([date(2026, 1, 2)]),
            "date",
            "`k` BETWEEN CAST('2026-01-02' AS date) AND CAST('2026-01-02' AS date)",
        ),
    ],
)
def test_the_ends_are_those_of_the_keys(cells: pa.Array, kind: str, bound: str) -> None:
    assert between(pa.table({"k": cells}), [("k", kind)]) == [bound]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (pa.array([], pa.int32()), "int"),
        (pa.array([None], pa.int32()), "int"),
        (pa.array([b"\x00"]), "binary"),
        # NaN is between no two values, so its row would be skipped.
        (pa.array([1.0, float("nan")]), "double"),
    ],
)
def test_nothing_is_said_where_a_bound_would_be_wrong(cells: pa.Array, kind: str) -> None:
    assert between(pa.table({"k": cells}), [("k", kind)]) == []
