"""The benchmarks' input determines what must be published, and their judge finds what is not."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.judge import Wrong, judged
from benchmarks.stream import Stream, stream


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Stream:
    return stream(tmp_path_factory.mktemp("streams"), 5_000)


def test_the_newest_positions_are_the_truth(generated: Stream) -> None:
    last, versions = {}, set()
    for line in generated.messages.read_text("utf-8").splitlines():
        event = json.loads(line)
        source = event["source"]
        position = source["commit_lsn"], source["change_lsn"], source["event_serial_no"]
        key = (event["after"] or event["before"])["id"]
        last[key] = max(
            last.get(key, ((),)), (position, event["op"], event["after"]), key=lambda entry: entry[0]
        )
        if event["after"]:
            versions.add((key, event["after"]["name"]))
    alive = {key: row["name"] for key, (_, _, row) in last.items() if row}
    truth = pq.read_table(generated.rows).to_pylist()
    assert {row["id"]: row["name"] for row in truth} == alive
    assert versions == {(row["id"], row["name"]) for row in pq.read_table(generated.versions).to_pylist()}


def test_some_arrive_again_and_some_late(generated: Stream) -> None:
    lines = generated.messages.read_text("utf-8").splitlines()
    order = [json.loads(line)["source"]["change_lsn"] for line in lines]
    assert 10 < len(lines) - 5_000 < 50
    assert len(set(lines)) == 5_000
    assert order != sorted(order)


@pytest.mark.parametrize("fault", ["none", "missing", "other", "twice"])
def test_wrong_rows_are_counted(generated: Stream, tmp_path: Path, fault: str) -> None:
    rows, versions = pq.read_table(generated.rows), pq.read_table(generated.versions)
    if fault == "missing":
        rows, versions = rows.slice(1), versions.slice(1)
    elif fault == "other":
        n1 = pa.array([-1, *rows["n1"].to_pylist()[1:]], pa.int32())
        rows = rows.set_column(rows.schema.get_field_index("n1"), "n1", n1)
    elif fault == "twice":
        versions = pa.concat_tables([versions, versions.slice(0, 2)])
    pq.write_table(rows, tmp_path / "rows.parquet")
    pq.write_table(versions, tmp_path / "versions.parquet")
    counted = {"none": (0, 0), "missing": (1, 1), "other": (1, 0), "twice": (0, 2)}
    assert judged(tmp_path, generated) == Wrong(*counted[fault])
