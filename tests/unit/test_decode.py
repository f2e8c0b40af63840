"""`changeledger decode`: what a user of the command sees; how a dialect is read is for the golden cases."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from changeledger.config import load_feed
from changeledger.decoding import reader, records
from changeledger.decoding.pretty import drawn
from changeledger.errors import ConfigError, ContractError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROJECT = Path(__file__).parents[2]
LSN = "0x0000002A000003B00005"


def decode(
    spark: SparkSession, dialect: str, told: list[dict[str, Any] | str], *, contract: Path | None = None
) -> list[dict[str, Any]]:
    lines = [line if isinstance(line, str) else json.dumps(line) for line in told]
    read = records.messages(lines) if reader.is_on_kafka(dialect) else records.rows(lines)
    stated = records.contracts(contract) if contract else {}
    return list(reader.results(spark, reader.feed_of(dialect, read), read, stated))


def cdc_row(operation: int, seqval: int = 1, **cells: Any) -> dict[str, Any]:
    header = {
        "__$start_lsn": LSN,
        "__$seqval": f"0x0000002A000003B0{seqval:04X}",
        "__$operation": operation,
        "__$update_mask": "0x07" if operation < 3 else "0x02",
    }
    return {"table": "cdc.dbo_items_CT", "row": {**header, **cells}}


def test_a_pair_of_rows_is_one_change_in_the_place_of_its_first(spark: SparkSession) -> None:
    rows: list[Any] = [
        cdc_row(3, id=1, name="old", price="1.50"),
        cdc_row(1, 2, id=2, name=None, price="2.00"),
        cdc_row(4, id=1, name="new", price="1.50"),
    ]
    update, delete = decode(spark, "sqlserver_cdc", rows)
    assert (update["record"], update["records"], update["operation"]) == (1, [1, 3], "update")
    assert update["before"] == {"id": "1", "name": "old", "price": "1.50"}
    assert update["changed"] == ["name"]
    assert (delete["record"], delete["operation"]) == (2, "delete")
    assert not {"records", "after"} & delete.keys()


def test_a_contract_gives_types_key_and_the_tables_name(spark: SparkSession, tmp_path: Path) -> None:
    contract = tmp_path / "contract.yaml"
    contract.write_text(
        "table: dbo.items\nkey: [id]\ncolumns:\n- {name: id, type: int}\n"
        "- {name: name, type: nvarchar(20)}\n- {name: price, type: 'decimal(9,2)'}\n"
    )
    (insert,) = decode(spark, "sqlserver_cdc", [cdc_row(2, id=1, name="a", price="1.5")], contract=contract)
    assert insert["table"] == "dbo.items"
    assert insert["key"] == {"id": 1}
    assert insert["after"] == {"id": 1, "name": "a", "price": "1.50"}
    assert insert["commit_lsn"] == LSN
    assert insert["change_lsn"] == "0x0000002A000003B00001"


def test_bits_beyond_the_header_are_those_of_the_columns(spark: SparkSession) -> None:
    """Three header columns: the mask of an update of the second column has bit 3 + 1."""
    header = {
        "header__change_seq": "20260807162500880000000000000000001",
        "header__change_oper": "U",
        "header__change_mask": "10",
    }
    (update,) = decode(
        spark, "qlik_tables", [{"table": "items__ct", "row": {**header, "id": 1, "name": "x"}}]
    )
    assert update["changed"] == ["name"]
    assert update["table"] == "items"
    assert update["flags"] == ["before_unknown"]


def test_debezium_without_a_schema_is_text_with_the_key_of_the_message(spark: SparkSession) -> None:
    source = {"connector": "sqlserver", "schema": "dbo", "table": "t", "ts_ms": 1786119900883}
    source |= {"commit_lsn": "0000002a:000003b0:0005", "change_lsn": "0000002a:000003b0:0003"}
    value = {"before": None, "after": {"id": 9007199254740993, "v": None}, "op": "c", "source": source}
    tombstone = {"topic": "t", "key": '{"id":9007199254740993}', "value": None}
    insert, control = decode(
        spark,
        "debezium",
        [{"topic": "t", "key": '{"id":9007199254740993}', "value": json.dumps(value)}, tombstone],
    )
    assert insert["key"] == {"id": "9007199254740993"}
    assert insert["after"] == {"id": "9007199254740993", "v": None}
    assert insert["committed_at"] == "2026-08-07T16:25:00.883Z"
    assert control == {"record": 2, "disposition": "tombstone", "table": "dbo.t"}


def ces_event(segments: list[str], operation: str = "INS") -> list[dict[str, Any]]:
    logical = "9c8d4ad2-bf54-4f10-a96f-038af496997f:0000002C00000300017C:00000000000000000001"
    common = {
        "specversion": "1.0",
        "type": "com.microsoft.SQL.CES.DML.V1",
        "source": "/",
        "logicalid": logical,
    }
    common |= {"time": "2025-03-14T16:45:20.650Z", "operation": operation}
    events = [
        {**common, "id": str(at), "segmentindex": at, "finalsegment": at == len(segments) - 1, "data": text}
        for at, text in enumerate(segments)
    ]
    return [{"topic": "ces", "key": "k", "value": json.dumps(event)} for event in events]


def test_segments_in_any_order_are_one_change(spark: SparkSession) -> None:
    cols = [{"name": "id", "type": "int", "index": 0}, {"name": "v", "type": "varchar(9)", "index": 1}]
    source = {
        "db": "d",
        "schema": "dbo",
        "tbl": "t",
        "cols": cols,
        "pkkey": [{"columnname": "id", "value": "1"}],
    }
    data = json.dumps({"eventsource": source, "eventrow": {"old": "{}", "current": '{"id":"1","v":"a"}'}})
    first, second, last = ces_event([data[:50], data[50:90], data[90:]])
    (insert,) = decode(spark, "ces", [last, first, second])
    assert (insert["record"], insert["records"]) == (1, [1, 2, 3])
    assert insert["after"] == {"id": 1, "v": "a"}
    waits = decode(spark, "ces", [last, first])
    assert [(w["record"], w["disposition"], w["reason"]) for w in waits] == [
        (1, "pending", "split_incomplete"),
        (2, "pending", "split_incomplete"),
    ]


def test_what_is_delivered_again_is_a_duplicate(spark: SparkSession) -> None:
    row = cdc_row(2, id=1, name="a")
    first, again = decode(spark, "sqlserver_cdc", [row, row])
    assert first["disposition"] == "change"
    assert (again["record"], again["disposition"], again["reason"]) == (2, "duplicate", "delivered_again")


@pytest.mark.parametrize("dialect", ["debezium", "ces", "qlik_messages", "qlik_tables", "sqlserver_cdc"])
def test_lines_that_are_no_records_are_told_in_their_place(spark: SparkSession, dialect: str) -> None:
    lines: list[Any] = ["{", "[]", '"x"', '{"row": 1, "value": 1}', "[" * 5000]
    found = decode(spark, dialect, lines)
    assert [(f["record"], f["disposition"], f["reason"]) for f in found] == [
        (n, "quarantined", "not_a_record") for n in range(1, 6)
    ]


def test_a_contract_that_is_wrong_says_what_is(tmp_path: Path) -> None:
    path = tmp_path / "contract.yaml"
    path.write_text("table: dbo.t\ncolumn: []\n")
    with pytest.raises(ConfigError, match="columns: Field required"):
        records.contracts(path)
    path.write_text("table: dbo.t\ncolumns: [{name: a, type: blob}]\n")
    with pytest.raises(ContractError, match="'blob' is not a SQL Server type"):
        records.contracts(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        records.contracts(tmp_path / "nowhere.yaml")


def test_pretty_shows_values_side_by_side_with_their_bits() -> None:
    console = Console(record=True, width=80, file=io.StringIO())
    console.print(
        drawn(
            {
                "record": 1, "records": [1, 2], "disposition": "change", "operation": "update",
                "table": "dbo.t", "key": {"id": 1}, "before": {"id": 1, "name": "old", "doc": None},
                "after": {"id": 1, "name": None, "doc": None}, "before_gaps": {"doc": "unavailable"},
                "changed": ["name"], "mask": "02", "flags": ["mask_disagrees"],
            }
        )
    )  # fmt: skip
    lines = [line.strip("│ ").split() for line in console.export_text().splitlines()]
    assert ["1", "name", "old", "NULL"] in lines
    assert ["0", "doc", "(unavailable)", "NULL"] in lines
    assert ["flags:", "mask_disagrees"] in lines


def test_the_command_reads_standard_input_and_needs_nothing_beside(tmp_path: Path) -> None:
    row = json.dumps(cdc_row(2, id=1, name="ä\u0000b"))
    ran = subprocess.run(
        [sys.executable, "-m", "changeledger.cli", "decode", "--dialect", "sqlserver_cdc"],
        input=f"{row}\n\n{row[:-1]}\n", capture_output=True, text=True, check=True, timeout=300,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT / "include"), "HOME": str(tmp_path)},
        cwd=tmp_path,
    )  # fmt: skip
    insert, broken = map(json.loads, ran.stdout.splitlines())
    assert insert["after"] == {"id": "1", "name": "ä\u0000b"}
    assert (broken["record"], broken["reason"]) == (2, "not_a_record")


def test_a_feed_of_another_dialect_is_refused(tmp_path: Path) -> None:
    feed = PROJECT / "include" / "feeds" / "shop_ces.yaml"
    assert load_feed(feed).dialect == "ces"
    ran = subprocess.run(
        [sys.executable, "-m", "changeledger.cli", "decode", "--dialect", "debezium", "--feed", str(feed)],
        check=False, input="", capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(PROJECT / "include")},
    )  # fmt: skip
    assert ran.returncode == 1
    assert "say --dialect ces" in ran.stderr
