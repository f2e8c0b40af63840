"""Hashes rows, and finds rows by their hashes."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from changeledger.kernels import touched
from changeledger.kernels.arrow import INSTANT
from changeledger.kernels.hashed import by, hash_of, row_hash
from changeledger.kernels.touched import Among, HashesOf, Touched, ends, keys_touched, known, touched_schema

KEY = pa.struct([("a", pa.int32()), ("b", pa.string())])
NOON = datetime(2026, 8, 7, 12, tzinfo=UTC)
COLUMNS = {
    "bit": pa.array([True, False, None]),
    "small": pa.array([1, -2, None], pa.int16()),
    "int": pa.array([1, -(2**31), None], pa.int32()),
    "long": pa.array([2**53 + 1, -1, None], pa.int64()),
    "real": pa.array([1.5, -0.0, float("nan")], pa.float32()),
    "double": pa.array([1.5, -0.0, float("nan")], pa.float64()),
    "short_decimal": pa.array([Decimal("-1.25"), Decimal("0.00"), None], pa.decimal128(18, 2)),
    "long_decimal": pa.array([Decimal("-1.25"), Decimal(10**30), None], pa.decimal128(38, 2)),
    "text": pa.array(["", "Zürich, and more than 32 bytes of it", None]),
    "bytes": pa.array([b"", b"\x00\xff", None]),
    "day": pa.array([date(2026, 8, 7), date(1, 1, 1), None]),
    "instant": pa.array([NOON, datetime(1969, 1, 1, tzinfo=UTC), None], INSTANT),
    "key": pa.array([{"a": 1, "b": "x"}, {"a": None, "b": "x"}, None], KEY),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_a_hash_is_of_the_values_alone(name: str) -> None:
    """Slices and offsets do not change a hash. NULL adds nothing, and 0 equals -0."""
    cells = COLUMNS[name]
    whole = hash_of([cells])
    assert np.concatenate([hash_of([cells.slice(at, 1)]) for at in range(3)]).tolist() == whole.tolist()
    assert len(set(whole.tolist())) == 3
    beside = hash_of([COLUMNS["long"], cells])
    assert (beside == hash_of([COLUMNS["long"]])).tolist() == cells.is_null().to_pylist()
    zeros = pa.array([0.0, -0.0])
    assert len(set(hash_of([zeros]).tolist())) == 1


@pytest.mark.parametrize("name", COLUMNS)
def test_a_row_with_its_value_in_the_next_column_is_another_row(name: str) -> None:
    cells = COLUMNS[name].slice(0, 1)
    nulls = pa.nulls(1, cells.type)
    hashes = [int(row_hash(pair)[0]) for pair in ([cells, nulls], [nulls, cells], [nulls, nulls], [nulls])]
    assert len(set(hashes)) == 4


def test_maps_are_equal_in_any_order_of_their_entries() -> None:
    gaps = [[("a", "x"), ("b", "y")], [("b", "y"), ("a", "x")], [("a", "y"), ("b", "x")], [], None]
    maps = pa.array(gaps, pa.map_(pa.string(), pa.string()))
    same, other_order, *others = row_hash([maps]).tolist()
    assert same == other_order
    assert len({same, *others}) == 4
    assert row_hash([maps.slice(1, 2)]).tolist() == [other_order, others[0]]


def batch(*keys: int | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": pa.array(keys, pa.int32())})


def test_rows_are_among_the_known_ones() -> None:
    hashes = known(pa.Table.from_batches([HashesOf(by("id"))(batch(1, 3, 3))]))
    assert Among(by("id"), hashes)(batch(1, 2, 3)).column(0).to_pylist() == [1, 3]
    assert Among(by("id"), hashes[:0])(batch(1, 2)).num_rows == 0


def test_keys_of_several_batches_are_touched_together() -> None:
    schema = touched_schema(pa.struct([("id", pa.int32())]))
    batches = [keys_touched(keys, schema) for keys in (batch(5, 2), batch(), batch(9))]
    touched = Touched.of(pa.Table.from_batches(batches))
    assert len(touched.hashes) == 3
    assert sorted(touched.keys.column("id").to_pylist()) == [2, 5, 9]


def test_ends_of_what_has_no_order_are_unknown() -> None:
    rows = pa.RecordBatch.from_pydict({"x": [1.0, float("nan")], "flag": [True, False], "id": [2, 1]})
    of_others = {"x": None, "flag": None}
    assert ends(rows).to_pylist() == [{**of_others, "id": at} for at in (1, 2, 1)]


def test_null_is_an_end_of_its_own() -> None:
    assert ends(batch(3, None, 1)).column(0).to_pylist() == [1, 3, None]
    assert ends(ends(batch(3, None, 1))).column(0).to_pylist() == [1, 3, None]


def test_keys_with_one_hash_are_both_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(touched, "hash_of", lambda columns: np.zeros(len(columns[0]), np.uint64))
    assert sorted(Touched.of_keys(batch(1, 2, 2)).keys.column(0).to_pylist()) == [1, 2]
