"""Picks the messages of a batch that a discovery may need: first and last of each group written alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.dialects.debezium.avro import may_be_of_several
from changeledger.dialects.debezium.avro import table_in as table_in_avro
from changeledger.dialects.debezium.plain import NAMED, beginning, table_in
from changeledger.dialects.messages import samples
from changeledger.dialects.messages.frames import with_id_header
from changeledger.kernels import avro

# Separates table and schema block in the name of a group; no name has this character.
_BETWEEN = "\n"


def facts(raw: pa.RecordBatch, schemas: Mapping[str, str]) -> pa.RecordBatch:
    """Returns the messages of a batch that a discovery may need (`samples.FACTS`).

    `schemas`: the known schemas of a registry, by id. Messages that name another one need no discovery.
    """
    values, framed = raw.column("value").to_pylist(), is_framed(raw.column("value"))
    in_frame = framed.to_pylist()
    tables: list[str | None] = [None] * len(values)
    groups: list[str | None] = [None] * len(values)
    for (_, _, block_or_table), rows in _alike(raw, values, in_frame, schemas).items():
        if in_frame[rows[0]]:
            schema_id = avro.schema_id(values[rows[0]])
            for at in {rows[0], rows[-1]} if schema_id in schemas else ():
                groups[at] = f"{schema_id}{_BETWEEN}{block_or_table}"
            continue
        for some in (rows, rows[::-1]):
            # The first and the last message that can be read.
            at, table = next(((at, table) for at in some if (table := table_in(values[at]))), (0, None))
            if table is not None:
                tables[at], groups[at] = table, f"{table}{_BETWEEN}{block_or_table}"
    columns = [raw.column(name) for name in ("topic", "partition", "offset", "key", "value")]
    columns += [framed, pa.array(tables, pa.string()), pa.array(groups, pa.string())]
    return samples.merged([pa.RecordBatch.from_arrays(columns, schema=samples.FACTS)])


def _alike(
    raw: pa.RecordBatch, values: Sequence[bytes | None], in_frame: Sequence[bool], schemas: Mapping[str, str]
) -> dict[tuple[str, bytes | str, str], list[int]]:
    """Groups the numbers of messages that are written alike, in the order of their offsets.

    The key is the topic; the words that name the table, or the frame; and a name for the schema block, or in
    Avro the table.
    """
    alike: dict[tuple[str, bytes | str, str], list[int]] = {}
    blocks: dict[str, list[tuple[bytes, str]]] = {}
    shared: dict[tuple[str, bytes], bool] = {}
    topics, ids_elsewhere = raw.column("topic").to_pylist(), with_id_header(raw)
    named: bytes | str | None = None
    for at in np.lexsort([raw.column(name).to_numpy() for name in ("partition", "offset")]).tolist():
        topic, value = topics[at], values[at]
        if value is None:
            continue
        if in_frame[at]:
            if at not in ids_elsewhere:
                place = topic, value[:5]
                if place not in shared:
                    shared[place] = may_be_of_several(value, topic, schemas)
                table = table_in_avro(value, topic, schemas) if shared[place] else None
                alike.setdefault((*place, table or ""), []).append(at)
            continue
        named = _named(value, named)
        if named is not None:
            alike.setdefault((topic, named, _block(value, blocks.setdefault(topic, []))), []).append(at)
    return alike


def is_framed(values: pa.BinaryArray) -> pa.BooleanArray:
    """Returns which messages begin with a zero byte and a schema id, as no JSON does."""
    framed = pc.and_(pc.less(values, b"\1"), pc.greater_equal(pc.binary_length(values), 5))
    return pc.fill_null(framed, fill_value=False)


def _named(value: bytes, before: bytes | str | None) -> bytes | str | None:
    """Returns the words that name a message's table, else the table's name; None if it has no table.

    `before`: the result for the previous message, which is usually this one's as well.
    """
    at = value.rfind(b'"schema"')
    if isinstance(before, bytes) and at >= 0 and value.startswith(before, at):
        return before
    words = NAMED.match(value, at) if at >= 0 else None
    return table_in(value) if words is None else words[0]


def _block(value: bytes, known: list[tuple[bytes, str]]) -> str:
    """Returns a name for what precedes the payload, empty if nothing does. `known`: blocks seen before."""
    for block, name in known:
        if value.startswith(block):
            return name
    block = beginning(value)
    if not block:
        return ""
    name = blake2b(block, digest_size=8).hexdigest()
    known.append((block, name))
    return name
