"""Data is read with the version of its table that wrote it, wherever the metadata is."""

from __future__ import annotations

from typing import Any, get_args

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from changeledger.config.feed import Feed
from changeledger.dialects.kernel import EarlierWindows
from changeledger.dialects.qlik_messages.dialect import QLIK_MESSAGES
from changeledger.kernels.in_memory import InMemory
from changeledger.model.contract import Contract
from changeledger.stages.normalization import reading
from changeledger.stages.normalization.mask_reading import resolved_alone
from tests.dialects.qlik_messages.altered import TABLE, Metadata, Truth, sent, windows

FEED = Feed.model_validate(
    {
        "feed": "altered", "dialect": "qlik_messages", "database": "shop", "connection": "shop",
        "source": {"topics": ["rep.*"]}, "tables": [{"table": TABLE}],
    }
)  # fmt: skip


class Line:
    """Reads windows in sequence, each with the contracts and writer schemas of the earlier ones."""

    def __init__(self) -> None:
        self.contracts: dict[str, Contract] = {}
        self.writer_schemas: dict[str, Contract] = {}

    def read(self, raw: pa.RecordBatch) -> dict[tuple[str, int, int], dict[str, Any]]:
        known = EarlierWindows(self.contracts, self.writer_schemas, {})
        discovery = reading.discovered(QLIK_MESSAGES.kernel, InMemory.of(raw), FEED, known, "window")
        rows = {}
        for table in reading.inputs(
            discovery.records, reading.TableKnowledge(self.contracts, resolved_alone)
        ):
            assert table.contract is not None
            self.contracts = {TABLE: table.contract}
            for row in table.decoded.collected().to_pylist():
                place = row["source_position"]
                rows[place["source"], place["partition"], place["offset"]] = row
        self.writer_schemas |= discovery.writer_schemas
        return rows


def assert_true(row: dict[str, Any], truth: Truth, contract: Contract) -> None:
    assert (row["disposition"], row["reason"], row["flags"]) == ("change", None, None), row["detail"]
    assert row["operation"] == truth.operation
    side = "before" if truth.operation == "delete" else "after"
    unknown = dict(row[f"{side}_unknown_columns"] or ())
    known = {name: value for name, value in row[side].items() if name not in unknown}
    assert known == truth.row
    assert unknown.keys() == set(contract.names) - truth.row.keys()
    assert frozenset(row["changed"] or ()) == truth.changed


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    metadata=st.sampled_from(get_args(Metadata)),
    again=st.booleans(),
    cuts=st.lists(st.integers(0, 70), max_size=4),
)
def test_a_table_that_is_altered_in_mid_stream(
    seed: int, metadata: Metadata, again: bool, cuts: list[int]
) -> None:
    line = Line()
    for raw, truths in windows(list(sent(seed, metadata, again=again)), cuts):
        rows = line.read(raw)
        for message, truth in zip(raw.to_pylist(), truths, strict=True):
            if truth is not None:
                place = message["topic"], message["partition"], message["offset"]
                assert_true(rows[place], truth, line.contracts[TABLE])
