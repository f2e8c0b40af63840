"""Measures CPU seconds of the message kernels per million messages, on one core.

    python -m benchmarks.kernels_of_messages [messages]

The kernels are those of CES (1.8 kB per message: JSON in JSON in JSON, which repeats its table's columns) and
of Qlik's messages (0.8 kB, in their envelope), on the changes of `benchmarks.kernels`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from random import Random
from typing import Any

import pyarrow as pa

from benchmarks.kernels import BATCH, CONTRACT, TYPES, cpu, events
from changeledger.config.feed import Feed
from changeledger.dialects.ces import decode as ces_decode
from changeledger.dialects.ces import discovery as ces_discovery
from changeledger.dialects.kernel import EarlierWindows
from changeledger.dialects.plan import TablePlan
from changeledger.dialects.qlik_messages import decode as qlik_decode
from changeledger.dialects.qlik_messages import discovery as qlik_discovery
from changeledger.kernels.arrow import MESSAGE

GUID = "9c8d4ad2-bf54-4f10-a96f-038af496997f"
TIME = "2026-08-07T16:25:00.883"
COLS = [{"name": name, "type": kind, "index": at} for at, (name, kind) in enumerate(TYPES.items())]
QLIK = {"c": ("INSERT", "03FF"), "u": ("UPDATE", "0104"), "d": ("DELETE", "0001")}


def feed(dialect: str) -> Feed:
    return Feed.model_validate(
        {
            "feed": "bench", "dialect": dialect, "database": "bench", "connection": "none",
            "source": {"topics": ["bench.dbo.t"]}, "tables": [{"table": "dbo.t"}],
        }
    )  # fmt: skip


def _texts(row: dict[str, Any]) -> dict[str, Any]:
    """Returns a row of the benchmark with values as these dialects write them; numbers stay native."""
    micros = row["ts"] % 1_000_000
    return {**row, "amount": f"{row['n1']}.25", "d": "2026-08-07", "ts": f"2026-08-07 16:25:00.{micros:06}"}


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def ces(at: int, op: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> bytes:
    def image(row: dict[str, Any] | None) -> str:
        said = {} if row is None else {n: None if v is None else str(v) for n, v in _texts(row).items()}
        return _dumped(said)

    position = f"0000002c{at // 3:08x}0011".upper()
    transaction: dict[str, Any] = {
        "commitlsn": f"{position[:8]}:{position[8:16]}:{position[16:]}",
        "beginlsn": "0" * 20,
    }
    transaction |= {"sequencenumber": at % 3, "committime": f"{TIME}Z", "finalevent": False}
    key = [{"columnname": "id", "value": str((after or before or {})["id"])}]
    source = {"db": "bench", "schema": "dbo", "tbl": "t", "cols": COLS, "pkkey": key}
    data = {
        "eventsource": {**source, "transaction": transaction},
        "eventrow": {"old": image(before), "current": image(after)},
    }
    event: dict[str, Any] = {
        "specversion": "1.0",
        "type": "com.microsoft.SQL.CES.DML.V1",
        "source": "/",
        "id": f"{at:036}",
    }
    event |= {"logicalid": f"{GUID}:{position}:{at % 3:020}", "time": f"{TIME}Z"}
    event |= {"operation": {"c": "INS", "u": "UPD", "d": "DEL"}[op], "segmentindex": 0, "finalsegment": True}
    return _dumped({**event, "data": _dumped(data)}).encode()


def qlik(at: int, op: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> bytes:
    operation, mask = QLIK[op]
    headers: dict[str, Any] = {
        "operation": operation,
        "changeSequence": f"{20260807162500:014}88{at:019}",
        "timestamp": TIME,
    }
    headers |= {"streamPosition": f"0000002c:{at // 3:08x}:0011", "transactionId": f"{at // 3:032X}"}
    headers |= {"changeMask": mask, "columnMask": "03FF", "transactionEventCounter": at % 3}
    old = _texts(before) if before is not None and op == "u" else None
    message = {"data": _texts(after or before or {}), "beforeData": old, "headers": headers}
    return _dumped({"magic": "atMSG", "type": "DT", "messageSchemaId": None, "message": message}).encode()


def batches(values: Iterable[bytes]) -> list[pa.RecordBatch]:
    rows: list[tuple[Any, ...]] = [
        ("bench.dbo.t", 0, at, 1_786_119_902_000_000, None, value, []) for at, value in enumerate(values)
    ]
    columns = [pa.array(list(c), f.type) for c, f in zip(zip(*rows, strict=True), MESSAGE, strict=True)]
    in_batches: list[pa.RecordBatch] = pa.Table.from_arrays(columns, schema=MESSAGE).to_batches(BATCH)
    return in_batches


def main() -> None:
    changes = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    parts = batches(ces(at, *event) for at, event in enumerate(events(Random(1), changes)))
    facts = ces_discovery.merged([ces_discovery.facts(parts[0], {})])
    ways = ces_discovery.discover(facts, feed("ces"), EarlierWindows({}, {}, {}))
    table = TablePlan(feed("ces"), ways.tables[0].writer_schema, CONTRACT, "window")
    print(f"ces: facts               {cpu(lambda b: ces_discovery.facts(b, {}), parts):6.2f}")
    print(f"ces: routes              {cpu(lambda b: ces_discovery.routes(b, ways), parts):6.2f}")
    print(f"ces: decode              {cpu(lambda b: ces_decode.decode(b, table), parts):6.2f}")
    parts = batches(qlik(at, *event) for at, event in enumerate(events(Random(1), changes)))
    labels = qlik_discovery.merged([qlik_discovery.facts(parts[0], {})])
    known = EarlierWindows({"dbo.t": CONTRACT}, {}, {})
    discovery = qlik_discovery.discover(labels, feed("qlik_messages"), known)
    written = TablePlan(feed("qlik_messages"), CONTRACT, CONTRACT, "window")
    print(f"qlik_messages: facts     {cpu(lambda b: qlik_discovery.facts(b, {}), parts):6.2f}")
    print(f"qlik_messages: routes    {cpu(lambda b: qlik_discovery.routes(b, discovery), parts):6.2f}")
    print(f"qlik_messages: decode    {cpu(lambda b: qlik_decode.decode(b, written), parts):6.2f}")


if __name__ == "__main__":
    pa.set_cpu_count(1)
    main()
