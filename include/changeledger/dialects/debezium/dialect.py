"""Debezium's connectors."""

from __future__ import annotations

from operator import attrgetter

import pyarrow as pa

from changeledger.config.feed import Feed
from changeledger.dialects.debezium import discovery
from changeledger.dialects.debezium.decode import decode
from changeledger.dialects.debezium.other_messages import decode_other
from changeledger.dialects.debezium.plan import table_plan
from changeledger.dialects.debezium.routing import routes
from changeledger.dialects.debezium.schema_block import named_columns
from changeledger.dialects.interface import MessageDialect
from changeledger.dialects.kernel import EarlierWindows, MessageKernel
from changeledger.dialects.messages import samples


def _discover(window_facts: pa.RecordBatch, feed: Feed, known: EarlierWindows) -> discovery.Discovery:
    return discovery.discover(window_facts, feed, known.contracts, known.avro_schemas)


DEBEZIUM = MessageDialect(
    MessageKernel(
        "debezium",
        samples.FACTS,
        discovery.facts,
        samples.merged,
        _discover,
        routes,
        table_plan,
        decode,
        decode_other,
        warnings=attrgetter("warnings"),
    ),
    named_columns=named_columns,
)
