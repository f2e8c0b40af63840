"""The dialect's record of functions."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from changeledger.config import Feed
from changeledger.contract import Contract
from changeledger.kernels import messages
from changeledger.kernels.ces import split
from changeledger.kernels.ces import survey as surveys
from changeledger.kernels.ces.decode import decode
from changeledger.kernels.ces.others import decode_other
from changeledger.kernels.ces.plan import TablePlan
from changeledger.kernels.interface import Known, MessageKernel, Segments, Written


def _facts(raw: pa.RecordBatch, _avro_schemas: Mapping[str, str]) -> pa.RecordBatch:
    return surveys.facts(raw)


def _survey(found: pa.RecordBatch, feed: Feed, known: Known) -> surveys.Survey:
    return surveys.survey(found, feed, known.contracts)


def _plan(
    _survey: surveys.Survey, _number: int, feed: Feed, written: Written, contract: Contract, window_id: str
) -> TablePlan:
    return TablePlan(feed, written.writer_schema, contract, window_id)


def _parts(raw: pa.RecordBatch) -> pa.RecordBatch:
    raw = messages.as_messages(raw)
    rows = [at for at, value in enumerate(raw.column("value").to_pylist()) if surveys.route(value) is None]
    return split.keyed(raw.take(pa.array(rows, pa.int64())))


def _decode_other(raw: pa.RecordBatch, _feed: Feed, survey: surveys.Survey) -> pa.RecordBatch:
    return decode_other(raw, survey)


CES = MessageKernel(
    "ces",
    surveys.FACTS,
    _facts,
    surveys.merged,
    _survey,
    surveys.routes,
    _plan,
    decode,
    _decode_other,
    segments=Segments(surveys.has_segments, _parts, split.KEYED, split.joined, split.JOINED, surveys.SEGMENT),
)
