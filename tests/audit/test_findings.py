"""What workers have found, on its way to the job: rows in plain values, and no pickle."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from changeledger.audit.findings import Finding, as_json, as_table, by_rule, of_json
from tests.audit.tables import key, record

_SCALARS = (
    st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.dates() | st.times()
    | st.floats(allow_nan=False) | st.datetimes() | st.datetimes(timezones=st.just(UTC))
    | st.decimals(allow_nan=False, allow_infinity=False)
)  # fmt: skip
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)


@given(st.lists(st.dictionaries(st.text(), _VALUES), max_size=3))
def test_rows_come_back_as_they_were(rows: list[dict[str, Any]]) -> None:
    """Also where a member has the name by which a kind is said."""
    assert of_json(as_json(rows)) == tuple(rows)
    assert of_json(as_json([{"bytes": "00"}, {"dict": {"Decimal": "1"}}])) == (
        {"bytes": "00"}, {"dict": {"Decimal": "1"}},
    )  # fmt: skip


def test_findings_of_two_buckets_are_one() -> None:
    row = {
        "key": key(1), "source_position": record(1), "sort_key": b"\0\xff", "amount": Decimal("1.50"),
        "at": datetime(2026, 1, 2, 3), "day": date(2026, 1, 2), "time": time(3, 4), "unknown": object,
    }  # fmt: skip
    found = by_rule([as_table({"rule": Finding(1, 2, (row,))}), as_table({"rule": Finding(2, 3)})])
    assert found["rule"] == Finding(3, 5, ({**row, "unknown": str(object)},))
