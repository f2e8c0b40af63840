"""Measures CPU seconds of the kernels per million messages, on one core.

    python -m benchmarks.kernels [messages]

Messages have 614 bytes, like SPEED's: 35 % inserts, 50 % updates, 10 % deletes, 5 % key updates (`d` and
`c`). Beside the kernel stands its floor: the time msgspec needs to decode the same bytes to typed structs,
and no more.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa

from changeledger.config.feed import Feed
from changeledger.dialects.debezium.decode import decode
from changeledger.dialects.debezium.facts import facts
from changeledger.dialects.debezium.plan import TablePlan
from changeledger.dialects.debezium.structs import typed
from changeledger.kernels.arrow import MESSAGE
from changeledger.model.contract import Column, Contract
from sourcelab.avro_converter import AvroConverter
from sourcelab.messages import Message
from sourcelab.schema_registry import SchemaRegistry

BATCH = 10_000
TYPES = {
    "id": "int", "name": "nvarchar(50)", "n1": "int", "n2": "int", "amount": "decimal(18,2)", "d": "date",
    "ts": "datetime2(6)", "flag": "bit", "city": "nvarchar(50)", "x": "float",
}  # fmt: skip
CONTRACT = Contract(
    table="dbo.t",
    columns=tuple(
        Column(name=name, type=kind, ordinal=at, key_position=int(name == "id"), nullable=name != "id")
        for at, (name, kind) in enumerate(TYPES.items(), 1)
    ),
)
FEED = Feed.model_validate(
    {
        "feed": "bench", "dialect": "debezium", "database": "bench", "connection": "none",
        "source": {"topics": ["bench.dbo.t"]}, "tables": [{"table": "dbo.t"}],
    }
)  # fmt: skip
PLAN = TablePlan(FEED, CONTRACT, CONTRACT, "bench", "window")
CITIES = ("Basel", "Bern", "Genf", "Lausanne", "Lugano", "Zürich")


def row(rng: Random, key: int) -> dict[str, Any]:
    amount = rng.randrange(10**8)
    return {
        "id": key,
        "name": f"customer {rng.randrange(10**6)}",
        "n1": rng.randrange(10**6),
        "n2": rng.randrange(100) or None,
        "amount": b64encode(amount.to_bytes((amount.bit_length() + 8) // 8, "big")).decode(),
        "d": 20_000 + rng.randrange(600),
        "ts": 1_786_119_900_000_000 + rng.randrange(10**9),
        "flag": rng.random() < 0.5,
        "city": rng.choice(CITIES),
        "x": round(rng.random() * 1000, 4),
    }


def events(rng: Random, changes: int) -> Iterator[tuple[str, dict[str, Any] | None, dict[str, Any] | None]]:
    for number in range(changes):
        kind, key = rng.random(), rng.randrange(changes)
        image = row(rng, key)
        if kind < 0.35:
            yield "c", None, image
        elif kind < 0.85:
            yield "u", image, {**image, "n1": image["n1"] + 1, "city": rng.choice(CITIES)}
        elif kind < 0.95:
            yield "d", image, None
        else:
            yield "d", image, None
            yield "c", None, {**image, "id": changes + number}


def batches(changes: int, seed: int = 1) -> list[pa.RecordBatch]:
    rng, rows = Random(seed), list[tuple[Any, ...]]()
    for at, (op, before, after) in enumerate(events(rng, changes)):
        position = {"change_lsn": f"0000002a:{at:08x}:0003", "commit_lsn": f"0000002a:{at // 3:08x}:0005"}
        source = {
            "version": "2.7.0.Final", "connector": "sqlserver", "name": "bench", "ts_ms": 1_786_119_900_883 + at,
            "snapshot": "false", "db": "bench", "sequence": None, "schema": "dbo", "table": "t", **position,
            "event_serial_no": 1 + (op == "u"),
        }  # fmt: skip
        event: dict[str, Any] = {"before": before, "after": after, "source": source, "op": op}
        event |= {"ts_ms": 1_786_119_901_883 + at, "transaction": None}
        event |= {"ts_us": 1_786_119_901_883_000 + at, "ts_ns": 1_786_119_901_883_000_000 + at}
        key = json.dumps({"id": (after or before or {})["id"]}).encode()
        value = json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()
        rows.append(("bench.dbo.t", at % 4, at, 1_786_119_902_000_000, key, value, []))
    columns = [
        pa.array(list(column), field.type)
        for column, field in zip(zip(*rows, strict=True), MESSAGE, strict=True)
    ]
    in_batches: list[pa.RecordBatch] = pa.Table.from_arrays(columns, schema=MESSAGE).to_batches(BATCH)
    return in_batches


def block(
    optional: bool, kind: str, field: str, fields: list[dict[str, Any]] | None = None, name: str = ""
) -> dict[str, Any]:
    """Returns a part of Connect's schema block."""
    schema: dict[str, Any] = {"type": kind, "optional": optional, "field": field}
    return schema | ({"fields": fields} if fields else {}) | ({"name": name} if name else {})


def schema_block() -> dict[str, Any]:
    kinds = {"int": "int32", "bit": "boolean", "float": "double", "date": "int32", "datetime2(6)": "int64"}
    names = {"date": "io.debezium.time.Date", "datetime2(6)": "io.debezium.time.MicroTimestamp"}
    row = [block(n != "id", kinds.get(k, "string"), n, name=names.get(k, "")) for n, k in TYPES.items()]
    amount = next(field for field in row if field["field"] == "amount")
    amount |= {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal"}
    amount["parameters"] = {"scale": "2", "connect.decimal.precision": "18"}
    texts = (
        "version",
        "connector",
        "name",
        "snapshot",
        "db",
        "sequence",
        "schema",
        "table",
        "change_lsn",
        "commit_lsn",
    )
    source = [block(True, "string", field_name) for field_name in texts]
    source += [block(True, "int64", field_name) for field_name in ("ts_ms", "event_serial_no")]
    members = [
        block(True, "struct", "before", row, "bench.dbo.t.Value"),
        block(True, "struct", "after", row, "bench.dbo.t.Value"),
        block(False, "struct", "source", source, "io.debezium.connector.sqlserver.Source"),
        block(False, "string", "op"),
        *(block(True, "int64", field_name) for field_name in ("ts_ms", "ts_us", "ts_ns")),
        block(True, "struct", "transaction", [block(True, "string", "id")], "event.block"),
    ]
    return {"type": "struct", "optional": False, "name": "bench.dbo.t.Envelope", "fields": members}


def wrapped(parts: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Returns the same messages wrapped in `{schema, payload}`."""
    schema = json.dumps(schema_block(), separators=(",", ":")).encode()
    return [
        _with_values(part, [b'{"schema":%s,"payload":%s}' % (schema, value) for value in _values(part)])
        for part in parts
    ]


def in_avro(parts: list[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], str]:
    """Returns the same messages in Avro, and their schema."""
    registry = SchemaRegistry()
    converter = AvroConverter(registry.register)
    encoded = []
    for part in wrapped(parts):
        key = b'{"schema":{"type":"int32","optional":false},"payload":1}'
        sent = converter.encoded(Message("bench.dbo.t", key, value, (), 0) for value in _values(part))
        encoded.append(_with_values(part, [message.value for message in sent]))
    schema_id = str(int.from_bytes(_values(encoded[0])[0][1:5], "big"))
    return encoded, registry.schemas[schema_id]


def _values(part: pa.RecordBatch) -> list[bytes]:
    values: list[bytes] = part.column("value").to_pylist()
    return values


def _with_values(part: pa.RecordBatch, values: list[bytes | None]) -> pa.RecordBatch:
    return part.set_column(5, "value", pa.array(values, pa.binary()))


def cpu(work: Callable[[pa.RecordBatch], object], parts: list[pa.RecordBatch]) -> float:
    """Returns CPU seconds per million messages, the best of three."""
    timings: list[float] = []
    for _ in range(3):
        began = time.process_time()
        for part in parts:
            work(part)
        timings.append(time.process_time() - began)
    messages: int = sum(part.num_rows for part in parts)
    return min(timings) / messages * 1_000_000


def main() -> None:
    parts = batches(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
    rows = sum(part.num_rows for part in parts)
    size = sum(len(value) for part in parts for value in part.column("value").to_pylist()) / rows
    print(f"{rows} messages of {size:.0f} bytes, batches of {BATCH}")
    decoder = typed(PLAN).decoder
    print(
        f"floor: bytes to structs  {cpu(lambda b: [decoder.decode(v) for v in b.column('value').to_pylist()], parts):6.2f}"
    )
    print(f"discovery                {cpu(lambda b: facts(b, {}), parts):6.2f}")
    print(f"decode, ids and all      {cpu(lambda b: decode(b, PLAN), parts):6.2f}")
    print(f"wrapped with its schema  {cpu(lambda b: decode(b, PLAN), wrapped(parts)):6.2f}")
    binary, schema = in_avro(parts)
    print(
        f"in Avro                  {cpu(lambda b: decode(b, replace(PLAN, avro_schema=schema)), binary):6.2f}"
    )
    if "--profile" in sys.argv:
        with cProfile.Profile() as profile:
            for part in parts:
                decode(part, PLAN)
        pstats.Stats(profile).sort_stats("tottime").print_stats(35)


if __name__ == "__main__":
    pa.set_cpu_count(1)
    main()
