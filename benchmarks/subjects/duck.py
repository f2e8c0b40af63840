"""DuckDB: parses the messages and keeps the latest state of each key; with `--history` also its versions.

python -m benchmarks.subjects.duck MESSAGES OUT [--history]
"""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb

from benchmarks.marks import mark

_CELLS = {
    "id": "INTEGER", "name": "VARCHAR", "n1": "INTEGER", "n2": "INTEGER", "amount": "DECIMAL(18,2)", "d": "INTEGER",
    "ts": "BIGINT", "flag": "BOOLEAN", "city": "VARCHAR", "x": "DOUBLE",
}  # fmt: skip
_IMAGE = f"STRUCT({', '.join(f'{name} {kind}' for name, kind in _CELLS.items())})"
_SOURCE = "STRUCT(ts_ms BIGINT, change_lsn VARCHAR, commit_lsn VARCHAR, event_serial_no BIGINT)"
_TYPED = {"d": "DATE '1970-01-01' + row.d AS d", "ts": "make_timestamp(row.ts) AS ts"}
_POSITION = "commit_lsn, change_lsn, event_serial_no"


def main() -> None:
    messages, out = sys.argv[1], Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    base = duckdb.connect(str(out / "lake.duckdb"))
    mark("start")
    base.execute(
        f"CREATE TABLE changes AS SELECT op, {', '.join(_TYPED.get(n, f'row.{n} AS {n}') for n in _CELLS)}, "
        f"source.commit_lsn, source.change_lsn, source.event_serial_no, make_timestamp(source.ts_ms * 1000) AS committed_at "
        "FROM (SELECT op, source, coalesce(after, before) AS row FROM read_json(?, format = 'newline_delimited', "
        f"columns = {{op: 'VARCHAR', before: '{_IMAGE}', after: '{_IMAGE}', source: '{_SOURCE}'}}))",
        [messages],
    )
    base.execute(
        f"CREATE TABLE current AS SELECT {', '.join(_CELLS)} FROM (SELECT *, row_number() OVER (PARTITION BY id "
        "ORDER BY commit_lsn DESC, change_lsn DESC, event_serial_no DESC) AS n FROM changes) WHERE n = 1 AND op <> 'd'"
    )
    mark("latest state")
    if "--history" in sys.argv:
        base.execute(
            f"CREATE TABLE history AS SELECT *, lead(committed_at) OVER (PARTITION BY id ORDER BY {_POSITION}) AS valid_to "
            f"FROM (SELECT DISTINCT ON (id, {_POSITION}) * FROM changes)"
        )
        mark("history")
        base.execute(
            "COPY (SELECT id, name FROM history WHERE op <> 'd') TO ? (FORMAT parquet)",
            [str(out / "versions.parquet")],
        )
    base.execute("COPY current TO ? (FORMAT parquet)", [str(out / "rows.parquet")])


if __name__ == "__main__":
    main()
