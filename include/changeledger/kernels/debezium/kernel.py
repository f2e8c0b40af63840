"""Debezium's record of functions."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from changeledger.config import Feed
from changeledger.kernels import samples
from changeledger.kernels.debezium import survey as surveys
from changeledger.kernels.debezium.decode import decode
from changeledger.kernels.debezium.others import decode_other
from changeledger.kernels.debezium.plan import table_plan
from changeledger.kernels.debezium.routing import routes
from changeledger.kernels.interface import Known, MessageKernel


def _facts(raw: pa.RecordBatch, _avro_schemas: Mapping[str, str]) -> pa.RecordBatch:
    return surveys.facts(raw)


def _survey(found: pa.RecordBatch, feed: Feed, known: Known) -> surveys.Survey:
    return surveys.survey(found, feed, known.contracts, known.avro_schemas)


DEBEZIUM = MessageKernel(
    "debezium", samples.FACTS, _facts, samples.merged, _survey, routes, table_plan, decode, decode_other
)
