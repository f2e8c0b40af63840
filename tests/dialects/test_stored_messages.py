"""Messages in existing ledgers keep their change ids.

Covers the dialects whose plan is only a feed and two contracts.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from changeledger.dialects.ces.decode import decode as decode_ces
from changeledger.dialects.messages.message_rows import decoded_schema
from changeledger.dialects.plan import TablePlan
from changeledger.dialects.qlik_messages.decode import decode as decode_qlik
from tests.dialects.stored import Stored, feed, stored

Decode = Callable[[pa.RecordBatch, TablePlan], pa.RecordBatch]
EACH = pytest.mark.parametrize(
    ("dialect", "decode", "group"),
    [
        pytest.param(dialect, decode, group, id=f"{dialect}-{group.contract.table}")
        for dialect, decode in (("ces", decode_ces), ("qlik_messages", decode_qlik))
        for group in stored(Path(__file__).parent / dialect)
    ],
)


def plan_of(dialect: str, group: Stored) -> TablePlan:
    return TablePlan(feed(dialect), group.writer_schema, group.contract, "window")


@EACH
def test_ids_are_those_that_are_stored(dialect: str, decode: Decode, group: Stored) -> None:
    decoded = decode(group.messages, plan_of(dialect, group))
    assert decoded.column("disposition").unique().to_pylist() == ["change"]
    assert decoded.column("change_id").to_pylist() == group.ids


@EACH
def test_a_batch_cut_anywhere_gives_the_same_rows(dialect: str, decode: Decode, group: Stored) -> None:
    """The plan is pickled, as Spark sends it to workers."""
    plan = pickle.loads(pickle.dumps(plan_of(dialect, group)))
    whole, cut = decode(group.messages, plan), group.messages.num_rows // 3
    parts = [decode(group.messages.slice(0, cut), plan), decode(group.messages.slice(cut), plan)]
    assert pa.Table.from_batches(parts).combine_chunks().to_pylist() == whole.to_pylist()
    assert whole.schema.equals(decoded_schema(group.contract))
    whole.validate(full=True)
    assert decode(group.messages.slice(0, 0), plan).num_rows == 0
