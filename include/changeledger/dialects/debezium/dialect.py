"""The dialect of Debezium's connectors, and the routing of its messages to tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.dialects.debezium import avro as avro_tables
from changeledger.dialects.debezium import discovery, facts, keys
from changeledger.dialects.debezium.decode import decode
from changeledger.dialects.debezium.discovery import Discovery, TableRecords
from changeledger.dialects.debezium.names import is_called
from changeledger.dialects.debezium.other_messages import decode_other
from changeledger.dialects.debezium.plain import table_in
from changeledger.dialects.debezium.plan import table_plan
from changeledger.dialects.debezium.schema_block import named_columns
from changeledger.dialects.interface import MessageDialect
from changeledger.dialects.kernel import MessageKernel
from changeledger.dialects.messages import samples
from changeledger.kernels import avro


def routes(raw: pa.RecordBatch, plan: Discovery) -> pa.Int32Array:
    """Returns the number of each message's `TableRecords`, or NULL for a message of no table.

    JSON in a topic whose tables are all in Avro belongs to no table; it is usually a control message.
    """
    in_json = [(at, records) for at, records in enumerate(plan.tables) if records.schema_id is None]
    in_avro = [(at, records) for at, records in enumerate(plan.tables) if records.schema_id is not None]
    alone = {records.topic: at for at, records in in_json if records.is_only_table}
    alone |= {records.topic: at for at, records in in_avro if records.unframed}
    shared = {
        (records.topic, records.source_table): at for at, records in in_json if not records.is_only_table
    }
    of_framed, own_names = _of_framed(in_avro, plan), _own_names(plan)
    topics, values = raw.column("topic"), raw.column("value")
    numbers = pa.array(list(alone.values()), pa.int32())
    table_numbers = numbers.take(pc.index_in(topics, value_set=pa.array(list(alone), pa.string())))
    has_frame = facts.is_framed(values)
    in_avro_alone = [records.topic for _, records in in_avro if records.unframed]
    if in_avro_alone:
        is_json = pc.fill_null(pc.match_substring_regex(values, r"^\s*\{"), fill_value=False)
        is_of_none = pc.and_(is_json, pc.is_in(topics, pa.array(in_avro_alone, pa.string())))
        table_numbers = pc.if_else(is_of_none, pa.scalar(None, pa.int32()), table_numbers)
    several = [*(topic for topic, _ in shared), *own_names]
    looked_at = pc.or_(has_frame, pc.is_in(topics, pa.array(several, pa.string())))
    if not pc.any(looked_at).as_py():
        return table_numbers
    places = table_numbers.to_pylist()
    for at in np.flatnonzero(looked_at.to_numpy(zero_copy_only=False)):
        topic, value = topics[int(at)].as_py(), values[int(at)].as_py()
        if has_frame[int(at)].as_py():
            places[at] = of_framed(topic, value)
            continue
        table = table_in(value)
        if topic not in own_names:
            places[at] = None if table is None else shared.get((topic, table))
        elif table is not None and table.lower() != own_names[topic]:
            places[at] = None
    return pa.array(places, pa.int32())


def _own_names(plan: Discovery) -> dict[str, str]:
    """Returns topics with one table in this window that may also carry others, with that table in lower case.

    These are topics of a feed with several tables whose names are not derived from the table's.
    """
    return {
        records.topic: records.source_table.lower()
        for records in (plan.tables if plan.has_several else ())
        if records.schema_id is None and records.is_only_table
        if not is_called(records.topic, records.source_table)
    }


def _of_framed(
    in_avro: Sequence[tuple[int, TableRecords]], plan: Discovery
) -> Callable[[str, bytes], int | None]:
    """Returns a lookup from a framed message's topic and value to the number of its `TableRecords`.

    The lookup returns None for a message of no table.
    """
    numbers = {
        (records.topic, records.schema_id, "" if records.is_only_table else records.source_table): at
        for at, records in in_avro
    }
    are_shared = {(topic, schema_id) for topic, schema_id, table in numbers if table}

    def number(topic: str, value: bytes) -> int | None:
        schema_id = avro.schema_id(value)
        is_shared = (topic, schema_id) in are_shared
        table = avro_tables.table_in(value, topic, plan.schemas) if is_shared else None
        return numbers.get((topic, schema_id, table or ""))

    return number


DEBEZIUM = MessageDialect(
    MessageKernel(
        "debezium",
        samples.FACTS,
        facts.facts,
        samples.merged,
        discovery.discover,
        routes,
        decode,
        decode_other,
        table_plan,
        warnings=attrgetter("warnings"),
    ),
    has_commit_lsns=True,
    named_columns=named_columns,
    read_key_cell=keys.read_cell,
)
