"""Measures CPU seconds of the change table kernels per million raw rows, on one core.

    python -m benchmarks.table_kernels [changes] [--profile]

The changes are those of `benchmarks.kernels`; an update is two rows. Columns are typed, as JDBC returns them.
"""

from __future__ import annotations

import cProfile
import pstats
import sys
import time
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.kernels import BATCH, TYPES, events
from changeledger.config.feed import Feed
from changeledger.dialects.plan import TablePlan
from changeledger.dialects.qlik_tables.dialect import QLIK_TABLES
from changeledger.dialects.sqlserver_cdc.dialect import SQLSERVER_CDC
from changeledger.dialects.tables.interface import Hidden, TableKernel
from changeledger.dialects.tables.pairs import joined
from changeledger.kernels.arrow import INSTANT, arrow_type
from changeledger.mask_order import mask_evidence
from changeledger.model.contract import Column, Contract

Work = Callable[[pa.RecordBatch], object]
BEGIN = datetime(2026, 8, 7, 16, 25)
CODES = {"c": (2,), "u": (3, 4), "d": (1,)}
LETTERS = {1: "D", 2: "I", 3: "B", 4: "U"}
WORDS = {1: "DELETE", 2: "INSERT", 3: "BEFOREIMAGE", 4: "UPDATE"}
HEADER = 7
KINDS = [arrow_type(Column(name=n, type=k, ordinal=1).spark_type) for n, k in TYPES.items()]
CDC = (
    ("__$start_lsn", pa.binary()),
    ("__$seqval", pa.binary()),
    ("__$operation", pa.int32()),
    ("__$update_mask", pa.binary()),
    ("__$command_id", pa.int32()),
    ("__$commit_time", pa.timestamp("us")),
)
QLIK = (("header__change_seq", pa.string()), ("header__change_oper", pa.string()),
        ("header__change_mask", pa.string()), ("header__stream_position", pa.string()),
        ("header__operation", pa.string()), ("header__transaction_id", pa.string()),
        ("header__timestamp", INSTANT))  # fmt: skip


def plan(dialect: str, header: int) -> TablePlan:
    columns = tuple(
        Column(name=name, type=kind, ordinal=at + header, key_position=int(name == "id"))
        for at, (name, kind) in enumerate(TYPES.items(), 1)
    )
    contract = Contract(table="dbo.t", columns=columns, mask_order="big")
    feed = Feed.model_validate(
        {
            "feed": "bench", "dialect": dialect, "database": "bench", "connection": "none", "source": {},
            "tables": [{"table": "dbo.t"}],
        }
    )  # fmt: skip
    return TablePlan(feed, contract, contract, "window")


def cells(row: dict[str, Any]) -> tuple[Any, ...]:
    values = {**row, "amount": Decimal(row["n1"]) / 100, "d": date(2025, 1, 1) + timedelta(row["n1"] % 300)}
    values["ts"] = BEGIN + timedelta(microseconds=row["ts"] % 10**9)
    return tuple(values.values())


def rows(changes: int) -> Iterator[tuple[int, int, int, tuple[Any, ...]]]:
    """Yields number of the change, SQL Server's operation, mask, and cells of each row."""
    for at, (op, before, after) in enumerate(events(Random(1), changes)):
        mask = 0x3FF if op != "u" else 0b100000100
        for code in CODES[op]:
            image = before if code in {1, 3} else after
            assert image is not None
            yield at, code, mask, cells(image)


def cdc_header(at: int, code: int, mask: int) -> tuple[Any, ...]:
    lsns = (f"0000002a{at // 3:08x}0005", f"0000002a{at:08x}0003")
    return (
        *map(bytes.fromhex, lsns),
        code,
        mask.to_bytes(2, "big"),
        at % 3,
        BEGIN + timedelta(seconds=at // 3),
    )


def qlik_header(at: int, code: int, mask: int) -> tuple[Any, ...]:
    bits = {1: 1, 3: 0}.get(code, mask) << HEADER
    position = f"0000002A:{at // 3:08X}:0005:0001"
    return (f"20260807162500{at:021}", LETTERS[code], f"{bits:X}" if bits else "", position, WORDS[code],
            f"{at // 3:032X}", BEGIN + timedelta(seconds=at // 3))  # fmt: skip


def batches(changes: int, header: Any, names: Any) -> list[pa.RecordBatch]:
    schema = pa.schema([*names, *zip(TYPES, KINDS, strict=True)])
    raw_rows = [(*header(at, code, mask), *image) for at, code, mask, image in rows(changes)]
    arrays = [
        pa.array(list(values), f.type) for values, f in zip(zip(*raw_rows, strict=True), schema, strict=True)
    ]
    in_batches: list[pa.RecordBatch] = pa.Table.from_arrays(arrays, schema=schema).to_batches(BATCH)
    return in_batches


def cpu(work: Work, parts: list[pa.RecordBatch], size: int) -> float:
    """Returns CPU seconds per million raw rows, the best of three."""
    timings = []
    for _ in range(3):
        began = time.process_time()
        for part in parts:
            work(part)
        timings.append(time.process_time() - began)
    return min(timings) / size * 1_000_000


def measure(kernels: TableKernel, plan: TablePlan, parts: list[pa.RecordBatch]) -> None:
    size, writer_schema = sum(part.num_rows for part in parts), plan.writer_schema
    print(f"{kernels.name}: {size} rows, batches of {BATCH}")

    def record(batch: pa.RecordBatch) -> pa.StructArray:
        return kernels.record(batch, "t", plan.feed, Hidden())

    print(f"  record              {cpu(record, parts, size):6.2f}")
    raw = [batch.append_column("source_position", record(batch)) for batch in parts]
    print(f"  decode              {cpu(lambda batch: kernels.decode(batch, plan), raw, size):6.2f}")
    table = pa.Table.from_batches([kernels.decode(batch, plan) for batch in raw])
    halves = table.filter(pc.is_valid(table["pair_key"])).combine_chunks().to_batches()
    print(f"  images joined, ids  {cpu(lambda batch: joined(batch, plan), halves, size):6.2f}")
    whole = [joined(batch, plan) for batch in halves]
    rules = kernels.mask_rules(parts[0].schema, plan.feed, writer_schema)

    def evidence(batch: pa.RecordBatch) -> object:
        return mask_evidence.counted(mask_evidence.facts(batch, writer_schema, rules), writer_schema, rules)

    print(f"  evidence of masks   {cpu(evidence, whole, size):6.2f}")
    if "--profile" in sys.argv:
        with cProfile.Profile() as profile:
            for batch in raw:
                kernels.decode(batch, plan)
            for batch in halves:
                joined(batch, plan)
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)


def main() -> None:
    changes = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 60_000
    measure(SQLSERVER_CDC.kernel, plan("sqlserver_cdc", 0), batches(changes, cdc_header, CDC))
    measure(QLIK_TABLES.kernel, plan("qlik_tables", HEADER), batches(changes, qlik_header, QLIK))


if __name__ == "__main__":
    pa.set_cpu_count(1)
    main()
