"""dlt: loads messages through Arrow into DuckDB, merged by key with the last change of each.

python -m benchmarks.subjects.load MESSAGES OUT
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import dlt
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from benchmarks.marks import mark

_CELLS = pa.struct(
    [
        ("id", pa.int32()), ("name", pa.string()), ("n1", pa.int32()), ("n2", pa.int32()), ("amount", pa.string()),
        ("d", pa.int32()), ("ts", pa.int64()), ("flag", pa.bool_()), ("city", pa.string()), ("x", pa.float64()),
    ]
)  # fmt: skip
_SOURCE = pa.struct(
    [
        ("ts_ms", pa.int64()), ("change_lsn", pa.string()), ("commit_lsn", pa.string()),
        ("event_serial_no", pa.int64()),
    ]
)  # fmt: skip
_MESSAGE = pa.schema([("op", pa.string()), ("before", _CELLS), ("after", _CELLS), ("source", _SOURCE)])
_TYPES = {"amount": pa.decimal128(18, 2), "d": pa.date32(), "ts": pa.timestamp("us")}


def main() -> None:
    messages, out = sys.argv[1], Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    base = out / "lake.duckdb"
    pipeline = dlt.pipeline(
        "bench",
        destination=dlt.destinations.duckdb(str(base)),
        dataset_name="plain",
        pipelines_dir=str(out / "state"),
    )
    mark("start")
    pipeline.run(_changes(messages), loader_file_format="parquet")
    mark("latest state")
    with duckdb.connect(str(base)) as read:
        read.execute("COPY (SELECT * FROM plain.changes) TO ? (FORMAT parquet)", [str(out / "rows.parquet")])


@dlt.resource(  # type: ignore[untyped-decorator]  # dlt has an environment of its own
    name="changes",
    primary_key="id",
    write_disposition="merge",
    # The change with the greatest position wins; a key whose last change is a delete is removed.
    columns={"position": {"dedup_sort": "desc"}, "is_deleted": {"hard_delete": True}},
)
def _changes(messages: str) -> Iterator[pa.Table]:
    options = pj.ParseOptions(explicit_schema=_MESSAGE, unexpected_field_behavior="ignore")
    read = pj.open_json(messages, pj.ReadOptions(block_size=32 << 20), options)
    for batch in read:
        after, before = batch.column("after"), batch.column("before")
        row = pc.if_else(pc.is_valid(after), after, before)
        cells = {field.name: pc.struct_field(row, field.name) for field in _CELLS}
        typed = {name: cell.cast(_TYPES.get(name, cell.type)) for name, cell in cells.items()}
        source = batch.column("source")
        serial = pc.utf8_lpad(pc.struct_field(source, "event_serial_no").cast(pa.string()), 10, "0")
        lsns = [pc.struct_field(source, name) for name in ("commit_lsn", "change_lsn")]
        typed["position"] = pc.binary_join_element_wise(*lsns, serial, "/")
        typed["is_deleted"] = pc.equal(batch.column("op"), "d")
        yield pa.table(typed)


if __name__ == "__main__":
    main()
