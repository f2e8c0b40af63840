"""Measures a row's life in a ledger of ten million changes, without Spark.

    python -m benchmarks.row_life [changes]

The ledger has windows of 250,000 changes of a million keys, spread evenly, so that each window changes a
quarter of the keys. 5 % of the changes move a row to another key. Files are written as the stages write them;
`--plain` writes them as pyiceberg does by default, for comparison.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import time
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import load_catalog

from benchmarks.kernels import CITIES, CONTRACT, FEED
from changeledger.config.settings import PROJECT, Settings

HOME = PROJECT / ".cache" / "benchmarks" / "row_life"
OF_WINDOW = 250_000
KEYS = 1_000_000
TRIES = 9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("changes", nargs="?", type=int, default=10_000_000)
    parser.add_argument("--plain", action="store_true", help="files as pyiceberg writes them by itself")
    asked = parser.parse_args()
    folder = HOME / f"{asked.changes}{'-plain' if asked.plain else ''}"
    os.environ["CHANGELEDGER_HOME"] = str(folder)
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        seconds = fill(asked.changes // OF_WINDOW, plain=asked.plain)
        (folder / "done").touch()
        print(f"{asked.changes:,} changes written in {seconds:.1f} s")
    measure()


def fill(windows: int, *, plain: bool) -> float:
    # Imported here, when the home is set.
    from changeledger.kernels.arrow import ledger_schema  # noqa: PLC0415
    from changeledger.lake.file_writes import Writing, commit  # noqa: PLC0415
    from changeledger.lake.new_tables import PROPERTIES  # noqa: PLC0415

    name = FEED.names[CONTRACT.table].changes.removeprefix("lake.")
    catalog = load_catalog("lake", **Settings().catalog, schema_version="v1")
    catalog.create_namespace(FEED.feed)
    table = catalog.create_table(name, ledger_schema(CONTRACT), properties={} if plain else PROPERTIES)
    rng = np.random.default_rng(17)
    began = time.monotonic()
    for number in range(windows):
        rows = window(rng, number)
        if plain:
            table.append(rows)
        else:
            commit(table, "main", Writing.into(table).files(rows))
            table.refresh()
    return time.monotonic() - began


def window(rng: np.random.Generator, number: int) -> pa.Table:
    from changeledger.kernels.arrow import ledger_schema  # noqa: PLC0415

    schema = ledger_schema(CONTRACT)
    ids = rng.integers(0, KEYS, OF_WINDOW).astype(np.int32)
    moved = rng.random(OF_WINDOW) < 0.05
    lsns = pa.array([b"\0\0" + (number * OF_WINDOW + at).to_bytes(8) for at in range(OF_WINDOW)], pa.binary())
    at = datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1e6 + number * 3.6e9
    times = pa.array((at + np.arange(OF_WINDOW) * 14_400).astype(np.int64)).cast(pa.timestamp("us", tz="UTC"))
    key = schema.field("key").type
    old = rng.integers(0, KEYS, OF_WINDOW).astype(np.int32)
    columns: dict[str, Any] = {
        "change_id": pa.array([f"{lsn.hex()}{number:012x}" for lsn in lsns.to_pylist()]),
        "operation": pa.repeat("update", OF_WINDOW),
        "key": pa.StructArray.from_arrays([pa.array(ids)], fields=list(key)),
        "previous_key": pa.StructArray.from_arrays([pa.array(old)], fields=list(key), mask=pa.array(~moved)),
        "before": image(rng, np.where(moved, old, ids)),
        "after": image(rng, ids),
        "changed": pa.array([["name", "n1"]] * OF_WINDOW),
        "commit_lsn": lsns, "change_lsn": lsns, "sort_key": lsns, "committed_at": times,
        "feed": pa.repeat(FEED.feed, OF_WINDOW), "dialect": pa.repeat("debezium", OF_WINDOW),
        "source_position": pa.StructArray.from_arrays(
            [
                pa.repeat("bench.dbo.t", OF_WINDOW), pa.repeat(pa.scalar(0, pa.int32()), OF_WINDOW),
                pa.array(np.arange(OF_WINDOW) + number * OF_WINDOW), pa.nulls(OF_WINDOW, pa.binary()),
            ],
            fields=list(schema.field("source_position").type),
        ),
        "window_id": pa.repeat(f"window-{number:04}", OF_WINDOW),
    }  # fmt: skip
    cells = [columns.get(field.name, pa.nulls(OF_WINDOW, field.type)) for field in schema]
    return pa.Table.from_arrays(
        [pc.cast(c, f.type) for c, f in zip(cells, schema, strict=True)], schema=schema
    )


def image(rng: np.random.Generator, ids: np.ndarray) -> pa.StructArray:
    from changeledger.kernels.arrow import row_type  # noqa: PLC0415

    size = len(ids)
    cells = {
        "id": pa.array(ids.astype(np.int32)),
        "name": pa.array([f"customer {n}" for n in rng.integers(0, 10**6, size)]),
        "n1": pa.array(rng.integers(0, 10**6, size).astype(np.int32)),
        "n2": pa.array(rng.integers(0, 100, size).astype(np.int32)),
        "amount": pa.array(rng.integers(0, 10**6, size).astype(np.int32)).cast(pa.decimal128(18, 2)),
        "d": pa.array(rng.integers(20_000, 20_600, size).astype(np.int32)).cast(pa.date32()),
        "ts": pa.array(rng.integers(0, 10**9, size) + 1_786_119_900_000_000).cast(pa.timestamp("us")),
        "flag": pa.array(rng.random(size) < 0.5),
        "city": pa.array(CITIES).take(pa.array(rng.integers(0, len(CITIES), size))),
        "x": pa.array(rng.random(size) * 1000),
    }
    kind = row_type(CONTRACT.columns)
    return pa.StructArray.from_arrays([cells[f.name].cast(f.type) for f in kind], fields=list(kind))


def measure() -> None:
    from changeledger.state.life import Place, life  # noqa: PLC0415
    from changeledger.state.recent import recent_rows  # noqa: PLC0415

    rng, measurements = np.random.default_rng(5), []
    for key in rng.integers(0, KEYS, TRIES).tolist():
        began, worked = time.monotonic(), time.process_time()
        row = life(Place(FEED.feed, CONTRACT, {}), {"id": str(key)})
        measurements.append((time.monotonic() - began, time.process_time() - worked, len(row.changes)))
    began = time.monotonic()
    recent_rows(Place(FEED.feed, CONTRACT, {}))
    recent = time.monotonic() - began
    print(json.dumps({
        "recent rows s": round(recent, 2),
        "first s": round(measurements[0][0], 2),
        "median s": round(statistics.median(seconds for seconds, *_ in measurements), 2),
        "worst s": round(max(seconds for seconds, *_ in measurements), 2),
        "median CPU s": round(statistics.median(seconds for _, seconds, _ in measurements), 2),
        "changes of a row": round(statistics.mean(changes for *_, changes in measurements), 1),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
