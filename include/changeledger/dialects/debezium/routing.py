"""Which messages are whose: the records of each table of a discovery, and those of none."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.dialects.debezium.discovery import Discovery, is_framed
from changeledger.dialects.debezium.named_table import table_in
from changeledger.kernels import avro


def routes(raw: pa.RecordBatch, plan: Discovery) -> pa.Int32Array:
    """For each message the number of its `TableRecords`; NULL for those of no table."""
    in_json = [(at, records) for at, records in enumerate(plan.tables) if records.schema_id is None]
    in_avro = [(at, records) for at, records in enumerate(plan.tables) if records.schema_id is not None]
    alone = {records.topic: at for at, records in in_json if records.is_only_table}
    alone |= {records.topic: at for at, records in in_avro if records.unframed}
    shared = {
        (records.topic, records.source_table): at for at, records in in_json if not records.is_only_table
    }
    framed = {(records.topic, records.schema_id): at for at, records in in_avro}
    topics, values = raw.column("topic"), raw.column("value")
    numbers = pa.array(list(alone.values()), pa.int32())
    table_numbers = numbers.take(pc.index_in(topics, value_set=pa.array(list(alone), pa.string())))
    has_frame = is_framed(values)
    looked_at = pc.or_(has_frame, pc.is_in(topics, pa.array([topic for topic, _ in shared], pa.string())))
    if not pc.any(looked_at).as_py():
        return table_numbers
    places = table_numbers.to_pylist()
    for at in np.flatnonzero(looked_at.to_numpy(zero_copy_only=False)):
        topic, value = topics[int(at)].as_py(), values[int(at)].as_py()
        if has_frame[int(at)].as_py():
            places[at] = framed.get((topic, avro.schema_id(value)))
        else:
            table = table_in(value)
            places[at] = None if table is None else shared.get((topic, table))
    return pa.array(places, pa.int32())
