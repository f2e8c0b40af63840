"""What a user of `changeledger decode` sees. Golden cases cover how dialects are read."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from changeledger.cli.decode import reader, records
from changeledger.cli.decode.pretty import drawn
from changeledger.config.feed import Feed
from changeledger.model.errors import ConfigError, ContractError
from tests.cli.called import called
from tests.dialects.debezium.test_defaults import WITH_DEFAULT
from tests.dialects.debezium.test_defaults import message as debezium_message

PROJECT = Path(__file__).parents[2]
LSN = "0x0000002A000003B00005"
SOURCE = {"schema": "dbo", "table": "t", "ts_ms": 1786119900883}
SOURCE |= {"commit_lsn": "0000002a:000003b0:0005", "change_lsn": "0000002a:000003b0:0003"}


def decode(
    dialect: str,
    reported: Sequence[dict[str, Any] | str],
    *,
    contract: Path | None = None,
    tables: Sequence[dict[str, Any]] = (),
    time_zone: str = "UTC",
) -> list[dict[str, Any]]:
    """Decodes as the command does. `tables` and `time_zone` are the settings of a feed file."""
    lines = [line if isinstance(line, str) else json.dumps(line) for line in reported]
    read = records.messages(lines) if reader.is_on_kafka(dialect) else records.rows(lines)
    stated = records.contracts(contract) if contract else {}
    feed = reader.feed_of(dialect, read).model_copy(update={"time_zone": time_zone})
    if tables:
        feed = Feed.model_validate({**feed.model_dump(), "source": feed.source, "tables": tables})
    return list(reader.results(feed, read, stated))


def cdc_row(operation: int, seqval: int = 1, **cells: Any) -> dict[str, Any]:
    header = {
        "__$start_lsn": LSN,
        "__$seqval": f"0x0000002A000003B0{seqval:04X}",
        "__$operation": operation,
        "__$update_mask": "0x07" if operation < 3 else "0x02",
    }
    return {"table": "cdc.dbo_items_CT", "row": {**header, **cells}}


def test_a_pair_of_rows_is_one_change_in_the_place_of_its_first() -> None:
    rows: list[Any] = [
        cdc_row(3, id=1, name="old", price="1.50"),
        cdc_row(1, 2, id=2, name=None, price="2.00"),
        cdc_row(4, id=1, name="new", price="1.50"),
    ]
    update, delete = decode("sqlserver_cdc", rows)
    assert (update["record"], update["records"], update["operation"]) == (1, [1, 3], "update")
    assert update["before"] == {"id": "1", "name": "old", "price": "1.50"}
    assert update["changed"] == ["name"]
    assert (delete["record"], delete["operation"]) == (2, "delete")
    assert not {"records", "after"} & delete.keys()


@pytest.mark.parametrize(
    ("zone", "rows", "committed"),
    [
        (
            "Europe/Berlin",
            ["10-25 01:50", "10-25 02:50", "10-25 02:10", "10-25 03:10"],
            ["10-24T23:50", "10-25T00:50", "10-25T01:10", "10-25T02:10"],
        ),
        # Half an hour, in the southern autumn. The rows of two tables show it together.
        (
            "Australia/Lord_Howe",
            ["04-05 01:20", "other 04-05 01:50", "04-05 01:40", "04-05 02:00"],
            ["04-04T14:20", "04-04T14:50", "04-04T15:10", "04-04T15:30"],
        ),
        # No time falls back: it may also have been 00:10 and 00:50.
        (
            "Europe/Berlin",
            ["10-25 01:50", "10-25 02:10", "10-25 02:50", "10-25 03:10"],
            ["10-24T23:50", "10-25T00:10?", "10-25T00:50?", "10-25T02:10"],
        ),
        ("Europe/Berlin", ["03-29 02:30"], ["03-29T01:30?"]),
    ],
)
def test_the_order_of_the_rows_shows_when_a_clock_was_put_back(
    zone: str, rows: list[str], committed: list[str]
) -> None:
    reported = []
    for n, at in enumerate(rows, 1):
        row = cdc_row(2, id=n)
        lsn = {"__$start_lsn": f"0x0000002A000003B0{n:04X}", "__$commit_time": f"2026-{at[-11:]}:00.000"}
        table = "cdc.dbo_others_CT" if at.startswith("other") else row["table"]
        reported.append({"table": table, "row": row["row"] | lsn})
    # The order of the input does not matter.
    changes = decode("sqlserver_cdc", reported[::-1], time_zone=zone)[::-1]
    times = [
        change["committed_at"][5:16] + "?" * ("clock_suspect" in change.get("flags", ()))
        for change in changes
    ]
    assert times == committed


def test_a_contract_gives_types_key_and_the_tables_name(tmp_path: Path) -> None:
    contract = tmp_path / "contract.yaml"
    contract.write_text(
        "table: dbo.items\nkey: [id]\ncolumns:\n- {name: id, type: int}\n"
        "- {name: name, type: nvarchar(20)}\n- {name: price, type: 'decimal(9,2)'}\n"
    )
    (insert,) = decode("sqlserver_cdc", [cdc_row(2, id=1, name="a", price="1.5")], contract=contract)
    assert insert["table"] == "dbo.items"
    assert insert["key"] == {"id": 1}
    assert insert["after"] == {"id": 1, "name": "a", "price": "1.50"}
    assert insert["commit_lsn"] == LSN
    assert insert["change_lsn"] == "0x0000002A000003B00001"


def stated(path: Path, table: str, *columns: str, key: str = "id") -> Path:
    """Writes a contract file. A column is stated as `name type` or `name type ordinal`."""
    reported = []
    for column in columns:
        name, kind, *ordinal = column.split()
        reported.append({"name": name, "type": kind, **({"ordinal": int(ordinal[0])} if ordinal else {})})
    file = path / "contract.json"
    file.write_text(json.dumps({"table": table, "key": [key], "columns": reported}))
    return file


def test_a_cell_that_a_row_leaves_out_is_not_null() -> None:
    rows = [cdc_row(2, 1, id=1, name=None, price="2"), cdc_row(2, 2, id=2, name="b"), cdc_row(2, 3, ID=3)]
    whole, part, capitals = decode("sqlserver_cdc", rows)
    assert (whole["after"], "after_unknown_columns" in whole) == (
        {"id": "1", "name": None, "price": "2"},
        False,
    )
    assert part["after_unknown_columns"] == {"price": "not_captured"}
    assert (capitals["after"]["id"], capitals["after_unknown_columns"]) == (
        "3",
        {"name": "not_captured", "price": "not_captured"},
    )


def large_update(
    dialect: str, mask: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, Any]:
    """Decodes an update of a table with a large `note`. `mask`: that of Qlik, with three header columns."""
    if dialect == "sqlserver_cdc":
        rows = [cdc_row(3, **before), cdc_row(4, **after)]
        for row in rows:
            row["row"]["__$update_mask"] = f"0x{int(mask, 16) >> 3:02X}"
    else:
        rows = [ct_row("B", "", **before), ct_row("U", mask, **after)]
    table = {"table": "dbo.items", "key": ["id"], "columns": [{"name": "note", "type": "nvarchar(max)"}]}
    (update,) = decode(dialect, rows, tables=[table])
    return update


@pytest.mark.parametrize("old", ["first", None])
@pytest.mark.parametrize("dialect", ["sqlserver_cdc", "qlik_tables"])
def test_a_large_value_set_to_null_is_no_contradiction(dialect: str, old: str | None) -> None:
    """By SQL Server's page on large objects, their old value is NULL, whatever it was."""
    update = large_update(dialect, "10", {"id": 1, "note": old}, {"id": 1, "note": None})
    assert (update["after"], update["changed"]) == ({"id": "1", "note": None}, ["note"])
    assert "after_unknown_columns" not in update
    assert update.get("before_unknown_columns") == (None if old else {"note": "unavailable"})
    assert "mask_disagrees" not in update.get("flags", [])


@pytest.mark.parametrize("old", ["first", None])
@pytest.mark.parametrize("dialect", ["sqlserver_cdc", "qlik_tables"])
def test_a_large_value_that_goes_without_its_bit_is_a_contradiction(dialect: str, old: str | None) -> None:
    """A value in the before row that is NULL in the after row must have its bit in the mask.

    A large object that an update leaves alone is NULL in both rows (SQL Server's page on `cdc.<instance>_CT`,
    on operation 3 and large objects).
    """
    before, after = {"id": 1, "note": old, "name": "a"}, {"id": 1, "note": None, "name": "b"}
    update = large_update(dialect, "20", before, after)
    # A value before means that it was set to NULL, whatever the mask says. Without one, the value may have
    # been left alone.
    assert update.get("after_unknown_columns") == ({"note": "unavailable"} if old is None else None)
    assert update["changed"] == ["name"]
    assert ("mask_disagrees" in update.get("flags", [])) is (old is not None)


def ct_row(letter: str, mask: str, **cells: Any) -> dict[str, Any]:
    header = {"change_seq": f"2026080716250088{1:019}", "change_oper": letter, "change_mask": mask}
    return {"table": "dbo.items__ct", "row": {**{f"header__{n}": v for n, v in header.items()}, **cells}}


def test_a_feed_says_which_columns_are_computed() -> None:
    reported = {"table": "dbo.items", "key": ["id"], "columns": [{"name": "Total", "computed": True}]}
    (insert,) = decode("qlik_tables", [ct_row("I", "18", id=1, total="3")], tables=[reported])
    assert (insert["after"], insert["after_unknown_columns"]) == (
        {"id": "1", "total": None},
        {"total": "not_captured"},
    )


def test_of_a_value_that_does_not_fit_column_and_type_are_said() -> None:
    columns = [{"name": "id", "type": "int"}, {"name": "total", "type": "tinyint"}]
    reported = {"table": "dbo.items", "key": ["id"], "columns": columns}
    (decoded,) = decode("qlik_tables", [ct_row("I", "18", id=1, total="300")], tables=[reported])
    assert (decoded["reason"], decoded["detail"]) == (
        "value_does_not_fit",
        "values that do not fit: total tinyint",
    )


def test_a_contract_is_of_its_own_table_alone(tmp_path: Path) -> None:
    contract = stated(tmp_path, "dbo.items", "id int", "line int")
    other = {**cdc_row(2, 2, id=9), "table": "cdc.dbo_others_CT"}
    insert, of_other = decode("sqlserver_cdc", [cdc_row(2, 1, id=1, line=2), other], contract=contract)
    assert (insert["key"], insert["after"]) == ({"id": 1}, {"id": 1, "line": 2})
    assert (of_other["table"], of_other["after"]) == ("dbo.others", {"id": "9"})
    assert "key" not in of_other
    # The instance has a name of its own, and the contract's table is the only candidate.
    renamed = {**cdc_row(2, 1, id=1, line=2), "table": "cdc.second_try_CT"}
    (meant,) = decode("sqlserver_cdc", [renamed], contract=contract)
    assert meant["table"] == "dbo.items"


def test_rows_of_tables_that_differ_in_case_are_not_mixed(tmp_path: Path) -> None:
    contract = stated(tmp_path, "dbo.items", "id int", "line int")
    other = {**cdc_row(2, 2, id=1, line=3), "table": "cdc.dbo_Items_CT"}
    insert, refused = decode("sqlserver_cdc", [cdc_row(2, 1, id=1, line=2), other], contract=contract)
    assert (insert["after"], refused["reason"]) == ({"id": 1, "line": 2}, "tables_alike")
    assert refused["detail"].startswith("dbo.Items is not dbo.items, which the feed reads as dbo.items: ")
    (only,) = decode("sqlserver_cdc", [other], contract=contract)
    assert (only["table"], only["after"]) == ("dbo.items", {"id": 1, "line": 3})
    neither = [{**other, "table": name} for name in ("dbo.ITEMS", "dbo.Items")]
    listed = [{"table": "dbo.items", "key": ["id"]}]
    assert [refusal["reason"] for refusal in decode("qlik_tables", neither, tables=listed)] == [
        "tables_alike"
    ] * 2


@pytest.mark.parametrize("ordinals", [(" 1", " 2", " 3"), (" 4", " 5", " 6"), ("", "", "")])
def test_bits_are_the_contracts_whatever_the_order_of_cells(
    tmp_path: Path, ordinals: tuple[str, str, str]
) -> None:
    """Three header columns come first, so `name` is the fifth column, bit 4."""
    names = ("id int", "name nvarchar(9)", "qty int")
    contract = stated(tmp_path, "dbo.items", *(n + o for n, o in zip(names, ordinals, strict=True)))
    row = {**ct_row("U", "10", qty=3, name="x", id=1), "table": "items__ct"}
    (update,) = decode("qlik_tables", [row], contract=contract)
    assert (update["table"], update["changed"]) == ("dbo.items", ["name"])


def test_a_feeds_tables_give_key_and_types() -> None:
    reported = {"table": "dbo.items", "key": ["id"], "columns": [{"name": "price", "type": "decimal(9,2)"}]}
    rows = [cdc_row(2, id=1, price="1.5"), {**cdc_row(2), "table": "cdc.dbo_others_CT"}]
    insert, unlisted = decode("sqlserver_cdc", rows, tables=[reported])
    assert (insert["key"], insert["after"]["price"]) == ({"id": "1"}, "1.50")
    assert (unlisted["disposition"], unlisted["reason"]) == ("control", "table_not_in_feed")


def test_a_stated_column_may_begin_like_those_of_sql_server() -> None:
    columns = [{"name": "id", "type": "int"}, {"name": "__$note", "type": "nvarchar(9)"}]
    reported = {"table": "dbo.items", "key": ["id"], "columns": columns}
    (insert,) = decode("sqlserver_cdc", [cdc_row(2, id=1, **{"__$note": "x"})], tables=[reported])
    assert insert["after"] == {"id": 1, "__$note": "x"}


def test_a_contract_counts_before_what_messages_tell(tmp_path: Path) -> None:
    contract = stated(tmp_path, "dbo.t", "id bigint", "v uniqueidentifier")
    fields = [{"field": "id", "type": "string"}, {"field": "v", "type": "string"}]
    value = {
        "schema": {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]},
        "payload": {
            "after": {"id": "1", "v": "6f9619ff-8b86-d011-b42d-00c04fc964ff"},
            "op": "c",
            "source": SOURCE,
        },
    }
    (insert,) = decode("debezium", [{"value": json.dumps(value)}], contract=contract)
    assert insert["key"] == {"id": 1}
    assert insert["after"]["v"] == "6F9619FF-8B86-D011-B42D-00C04FC964FF"


def test_the_words_of_kcat() -> None:
    source = {**SOURCE, "table": "a.b"}
    value = json.dumps({"before": None, "after": {"id": 1}, "op": "c", "source": source})
    place = {"topic": "s.dbo.a.b", "partition": 0, "ts": 1786119900883, "key": '{"id":1}'}
    headers = ["__debezium.oldkey", '{"id":0}', "empty", None]
    insert, tombstone = decode(
        "debezium",
        [
            {**place, "offset": 7, "payload": value, "headers": headers},
            {**place, "offset": 8, "payload": None},
        ],
    )
    assert (insert["table"], insert["key"]) == ("dbo.a.b", {"id": "1"})
    assert tombstone["disposition"] == "tombstone"


NO_MESSAGES = [
    "{}",
    '{"topic": "t", "offset": 1}',
    '{"value": "{}", "partition": 4294967296}',
    '{"value": "{}", "offset": 9223372036854775808}',
    '{"value": "{}", "topic": "\\ud800"}',
    '{"value": "{}", "headers": [{"name": "x"}]}',
    '{"value": "{}", "headers": ["x"]}',
    '{"value_hex": "0X0"}',
]


def test_messages_that_kafka_cannot_have() -> None:
    good = '{"value": "{}", "timestamp": 99999999999999999999, "value_hex": "0X7B7D"}'
    *refused, read = decode("debezium", [*NO_MESSAGES, good])
    assert [refusal["reason"] for refusal in refused] == ["not_a_record"] * len(NO_MESSAGES)
    assert read["reason"] != "not_a_record"


def test_bits_beyond_the_header_are_those_of_the_columns() -> None:
    """There are three header columns, so the second column has bit 3 + 1."""
    (update,) = decode("qlik_tables", [{**ct_row("U", "10", id=1, name="x"), "table": "items__ct"}])
    assert update["changed"] == ["name"]
    assert update["table"] == "items"
    assert update["flags"] == ["clock_suspect", "before_unknown"]


def test_inserts_alone_show_the_order_of_their_masks() -> None:
    """Three header columns and six more have bits 3 to 8, in the page's order F8 01.

    Read from the other end, the same bytes set bits of the header and bits beyond the table.
    """
    cells = {f"c{at}": at for at in range(2, 7)}
    (insert,) = decode("qlik_tables", [ct_row("I", "0xF801", id=1, **cells)])
    assert insert["disposition"] == "change"
    assert "mask_disagrees" not in insert["flags"]
    # Bit 9 is beyond the table in either order.
    (flagged,) = decode("qlik_tables", [ct_row("I", "0xF802", id=1, **cells)])
    assert (flagged["disposition"], "mask_disagrees" in flagged["flags"]) == ("change", True)


@pytest.mark.parametrize(
    ("mask", "changed"), [("0x1000", "c2"), ("1000", "c10"), ("10", "c2"), ("0x10", "c2")]
)
def test_masks_that_do_not_show_their_order_have_the_published_one(mask: str, changed: str) -> None:
    """Three header columns and twelve more: bit 4 is the second of these, bit 12 the tenth.

    In bytes, the first byte has the lowest bits (Qlik's page); in a text, the last digit has them (samples).
    """
    cells = {f"c{at}": at for at in range(1, 13)}
    (update,) = decode("qlik_tables", [ct_row("U", mask, **cells)])
    assert update["changed"] == [changed]


def test_bytes_of_a_narrow_mask_may_have_zeros_behind_them() -> None:
    """Three header columns and three more have bits 3 to 5."""
    (insert,) = decode("qlik_tables", [ct_row("I", "0x3800", id=1, name="x", price="2")])
    assert (insert["disposition"], insert["mask"]) == ("change", "3800")


def test_debezium_without_a_schema_is_text_with_the_key_of_the_message() -> None:
    source = {**SOURCE, "connector": "sqlserver"}
    value = {"before": None, "after": {"id": 9007199254740993, "v": None}, "op": "c", "source": source}
    tombstone = {"topic": "t", "key": '{"id":9007199254740993}', "value": None}
    insert, control = decode(
        "debezium",
        [{"topic": "t", "key": '{"id":9007199254740993}', "value": json.dumps(value)}, tombstone],
    )
    assert insert["key"] == {"id": "9007199254740993"}
    assert insert["after"] == {"id": "9007199254740993", "v": None}
    assert insert["committed_at"] == "2026-08-07T16:25:00.883Z"
    # Commit LSN, change LSN, zeros for the serial that is not written, and the rank of an insert.
    position = "0000002A000003B00005" + "0000002A000003B00003" + "00" * 8
    assert insert["sort_key"] == f"0x{position}02"
    assert control == {"record": 2, "disposition": "tombstone", "table": "dbo.t"}


def test_debezium_without_a_schema_has_the_types_that_messages_with_one_say() -> None:
    source = {**SOURCE, "connector": "sqlserver"}
    value = {"before": None, "after": {"id": 1, "day": 20307}, "op": "c", "source": source}
    row = [
        {"type": "int32", "optional": False, "field": "id"},
        {"type": "int32", "name": "io.debezium.time.Date", "optional": True, "field": "day"},
    ]
    block = {"type": "struct", "fields": [{"type": "struct", "field": "after", "fields": row}]}
    other = {"schema": block, "payload": {**value, "after": {"id": 2, "day": 20308}}}
    with_block = {"topic": "b", "key": '{"id":2}', "value": json.dumps(other)}
    results = decode("debezium", [{"topic": "a", "key": '{"id":1}', "value": json.dumps(value)}, with_block])
    images = [result["after"] for result in results]
    assert images == [{"id": 1, "day": "2025-08-07"}, {"id": 2, "day": "2025-08-08"}]


def ces_event(segments: list[str]) -> list[dict[str, Any]]:
    logical = "9c8d4ad2-bf54-4f10-a96f-038af496997f:0000002C00000300017C:00000000000000000001"
    common = {
        "specversion": "1.0",
        "type": "com.microsoft.SQL.CES.DML.V1",
        "source": "/",
        "logicalid": logical,
    }
    common |= {"time": "2025-03-14T16:45:20.650Z", "operation": "INS"}
    events = [
        {**common, "id": str(at), "segmentindex": at, "finalsegment": at == len(segments) - 1, "data": text}
        for at, text in enumerate(segments)
    ]
    return [{"topic": "ces", "key": "k", "value": json.dumps(event)} for event in events]


def test_segments_in_any_order_are_one_change() -> None:
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
    (insert,) = decode("ces", [last, first, second])
    assert (insert["record"], insert["records"]) == (1, [1, 2, 3])
    assert insert["after"] == {"id": 1, "v": "a"}
    waits = decode("ces", [last, first])
    assert [(w["record"], w["disposition"], w["reason"]) for w in waits] == [
        (1, "pending", "split_incomplete"),
        (2, "pending", "split_incomplete"),
    ]


def qlik_message(**headers: Any) -> dict[str, Any]:
    reported = {
        "operation": "INSERT", "changeSequence": "20260807162500880000000000000000001",
        "timestamp": "2026-08-07T16:25:00.883", "streamPosition": "0000002a:000003b0:0005",
        "changeMask": "03", "columnMask": "03", **headers,
    }  # fmt: skip
    message = {"schema": "dbo", "table": "t", "headers": reported, "data": {"id": 1, "v": "a"}}
    return {"topic": "dbo.t", "value": json.dumps({**message, "beforeData": None})}


def test_a_qlik_message_alone_waits_for_its_columns(tmp_path: Path) -> None:
    """Behaves as docs/decode.md describes."""
    with_id, without = qlik_message(externalSchemaId="t-1"), qlik_message()
    columns = {
        name: {"ordinal": at, "type": kind, "length": 9, "precision": 0, "scale": 0,
               "primaryKeyPosition": int(name == "id")}
        for at, (name, kind) in enumerate((("id", "INT4"), ("v", "WSTRING")), 1)
    }  # fmt: skip
    lineage = {"server": "s", "task": "t", "schema": "dbo", "table": "t", "tableVersion": 1}
    metadata = {"schemaId": "t-1", "lineage": lineage, "tableStructure": {"tableColumns": columns}}
    (pending,) = decode("qlik_messages", [with_id])
    assert (pending["disposition"], pending["reason"]) == ("pending", "metadata_unknown")
    reported, _ = decode("qlik_messages", [with_id, {"topic": "m", "value": json.dumps(metadata)}])
    assert reported["after"] == {"id": 1, "v": "a"}
    contract = stated(tmp_path, "dbo.t", "id int", "v nvarchar(9)")
    waits, insert = decode("qlik_messages", [with_id, without], contract=contract)
    assert (waits["disposition"], insert["after"]) == ("pending", {"id": 1, "v": "a"})


def test_a_cell_that_a_row_leaves_out_does_not_show_the_order_of_masks() -> None:
    """Bit 9 is in the first of two bytes (published samples of `__$update_mask`); its column is left out.

    Read from the other end, the mask sets bit 1, that of a large column, of which images say nothing.
    """
    names = ["id", *(f"c{at}" for at in range(3, 10))]
    columns = [
        {"name": "note", "type": "nvarchar(max)"}, *({"name": name, "type": "int"} for name in names),
    ]  # fmt: skip
    whole, part = {"note": "x", **dict.fromkeys(names, 1)}, {"id": 1, "c3": 1}
    rows: list[Any] = [cdc_row(2, 1, **whole), cdc_row(3, 2, **part), cdc_row(4, 2, **part)]
    for row, mask in zip(rows, ("0x01FF", "0x0100", "0x0100"), strict=True):
        row["row"]["__$update_mask"] = mask
    tables = [{"table": "dbo.items", "key": ["id"], "columns": columns}]
    insert, update = decode("sqlserver_cdc", rows, tables=tables)
    assert (insert["disposition"], update["disposition"]) == ("change", "change")
    assert (update["changed"], "flags" in update) == (["c9"], False)


def test_a_column_that_a_row_leaves_out_has_its_bit_in_the_mask() -> None:
    """Three header columns are in front, so `qty` has bit 5 (Qlik's page "Change Tables")."""
    rows = [ct_row("I", "38", id=1, name="a", qty=1), ct_row("U", "20", id=1, name="a")]
    _, update = decode("qlik_tables", rows)
    assert update["changed"] == ["qty"]
    assert "mask_disagrees" not in update["flags"]
    assert update["after_unknown_columns"] == {"qty": "not_captured"}


def test_masks_of_a_whole_table_that_contradict_their_images_are_flagged() -> None:
    """Inserts of ten columns, whose masks omit some columns in either byte order.

    The audit's rule `mask_agrees_with_images` stops a run that has one of them.
    """
    cells = {f"c{at}": "x" for at in range(2, 11)}
    rows: list[Any] = [cdc_row(2, at, id=at, **cells) for at in range(1, 5)]
    for row in rows:
        row["row"]["__$update_mask"] = "0x0101"
    inserts = decode("sqlserver_cdc", rows)
    assert [insert["flags"] for insert in inserts] == [["mask_disagrees"]] * 4


def test_what_is_delivered_again_is_a_duplicate() -> None:
    row = cdc_row(2, id=1, name="a")
    first, again = decode("sqlserver_cdc", [row, row])
    assert first["disposition"] == "change"
    assert (again["record"], again["disposition"], again["reason"]) == (2, "duplicate", "delivered_again")


@pytest.mark.parametrize("dialect", ["debezium", "ces", "qlik_messages", "qlik_tables", "sqlserver_cdc"])
def test_lines_that_are_no_records_are_reported_in_their_place(dialect: str) -> None:
    lines: list[Any] = ["{", "[]", '"x"', '{"row": 1, "value": 1}', "[" * 5000]
    refused = decode(dialect, lines)
    assert [(record["record"], record["disposition"], record["reason"]) for record in refused] == [
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
    for wrong, why in (
        ("[{name: a, type: int, ordinal: 2}, {name: b, type: int}]", "two columns have the same ordinal"),
        ("[{name: a, type: int}, {name: A, type: int}]", "columns names a column twice: a, A"),
        ("[{name: a, type: int}]\nkey: [b]", "key names columns that do not exist: b"),
    ):
        path.write_text(f"table: dbo.t\ncolumns: {wrong}\n")
        with pytest.raises(ConfigError, match=why):
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
                "after": {"id": 1, "name": None, "doc": None},
                "before_unknown_columns": {"doc": "unavailable"},
                "changed": ["name"], "mask": "02", "flags": ["mask_disagrees"],
                "commit_lsn": "0x0000002A000003B00005", "event_serial_no": 1, "sort_key": "0x0A01",
            }
        )
    )  # fmt: skip
    lines = [line.strip("│ ").split() for line in console.export_text().splitlines()]
    assert ["1", "name", "old", "NULL"] in lines
    assert ["0", "doc", "(unavailable)", "NULL"] in lines
    assert ["flags:", "mask_disagrees"] in lines
    # What orders the change: its position, and the sort key's bytes.
    assert ["sort_key", "0x0A01"] in lines
    assert ["key", '{"id":', "1}", "commit_lsn", "0x0000002A000003B00005", "event_serial_no", "1"] in lines


def test_pretty_shows_the_beginning_of_a_document() -> None:
    console = Console(record=True, width=80, file=io.StringIO())
    image = {"id": 1, "notes": "x" * 100_000}
    console.print(
        drawn({"record": 1, "disposition": "change", "operation": "insert", "table": "dbo.t", "after": image})
    )
    drawing = console.export_text()
    assert len(drawing.splitlines()) < 20
    assert "100000 characters" in " ".join(drawing.replace("│", "").split())


def test_a_cell_with_half_of_a_character_is_no_record() -> None:
    broken, good = decode("sqlserver_cdc", [cdc_row(2, 1, id="\ud800"), cdc_row(2, 2, id="2")])
    assert (broken["reason"], good["after"]) == ("not_a_record", {"id": "2"})
    assert "surrogates not allowed" in broken["detail"]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ('{"id": 1, "name": "a", "name": "b"}', "'name' occurs twice"),
        ('{"id": 1, "name": {"a": 1}}', "a cell is an object or a list"),
        ('{"id": 1, "name": [1.50]}', "a cell is an object or a list"),
    ],
)
def test_a_cell_that_says_no_one_text_is_no_record(row: str, why: str) -> None:
    (broken,) = decode("sqlserver_cdc", ['{"table": "dbo_items_CT", "row": ' + row + "}"])
    assert (broken["reason"], why in broken["detail"]) == ("not_a_record", True)


@pytest.mark.parametrize(
    ("timestamp", "committed_at"),
    [
        (1786119900883, "2026-08-07T16:25:00.883Z"),
        ("1786119900883", "2026-08-07T16:25:00.883Z"),
        ("2026-08-07 18:25:00.5+02:00", "2026-08-07T16:25:00.5Z"),
        ("2026-08-07T16:25:00Z", "2026-08-07T16:25:00Z"),
        (int("9" * 20), None),
        ("yesterday", None),
        ("9999-12-31T23:59:59-01:00", None),
    ],
)
def test_the_time_of_a_message_is_text_or_milliseconds(
    timestamp: str | int, committed_at: str | None
) -> None:
    """Debezium's message without a time of the source takes the time of the message."""
    source = {"schema": "dbo", "table": "t", "ts_ms": 0, "commit_lsn": "0000002a:000003b0:0005"}
    value = json.dumps({"op": "c", "before": None, "after": {"id": 1}, "source": source})
    (insert,) = decode("debezium", [{"value": value, "timestamp": timestamp}])
    assert insert["committed_at"] == (committed_at or "1970-01-01T00:00:00Z")


def ran(home: Path, code: str, text: str) -> list[Any]:
    """Runs code in a new process that finds neither programs nor an installation.

    Returns its output, parsed as JSON.
    """
    ended = subprocess.run(
        [sys.executable, "-c", code], input=text, capture_output=True, text=True, check=False, timeout=300,
        env={"PATH": "", "PYTHONPATH": str(PROJECT / "include"), "HOME": str(home)}, cwd=home,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    return [json.loads(line) for line in ended.stdout.splitlines()]


DECODE = "from changeledger.cli.main import main; main(['decode', '--dialect', 'sqlserver_cdc'])"


def test_the_command_reads_standard_input_and_needs_nothing_beside(tmp_path: Path) -> None:
    row = json.dumps(cdc_row(2, id=1, name="ä\u0000b"))
    insert, broken = ran(tmp_path, DECODE, f"{row}\n\n{row[:-1]}\n")
    assert insert["after"] == {"id": "1", "name": "ä\u0000b"}
    assert (broken["record"], broken["reason"]) == (2, "not_a_record")
    assert not list(tmp_path.iterdir()), "nothing is written"


def test_the_command_imports_nothing_that_takes_long(tmp_path: Path) -> None:
    slow = {"pyspark", "sqlalchemy", "pandas", "confluent_kafka", "great_expectations"}
    code = f"{DECODE}; import json, sys; print(json.dumps(sorted({slow!r} & sys.modules.keys())))"
    insert, imported = ran(tmp_path, code, json.dumps(cdc_row(2, id=1)))
    assert (insert["operation"], imported) == ("insert", [])


def test_pandas_is_there_for_whoever_needs_it(tmp_path: Path) -> None:
    code = f"{DECODE}; import pyarrow as pa; print(pa.array([1]).to_pandas().to_json())"
    assert ran(tmp_path, code, "") == [{"0": 1}]


def test_a_feed_of_another_dialect_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "records").touch()
    feed = PROJECT / "include" / "feeds" / "shop_ces.yaml"
    asked = ("decode", str(tmp_path / "records"), "--feed", str(feed), "--dialect")
    assert called(capsys, *asked, "ces").returncode == 0
    refused = called(capsys, *asked, "debezium")
    assert (refused.returncode, "use --dialect ces" in refused.stderr) == (1, True)


def test_what_people_should_know_of_records_stands_beside_the_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = debezium_message({"id": 1, "qty": 1234}, WITH_DEFAULT)
    file = tmp_path / "records"
    file.write_text(json.dumps({"topic": written.topic, "value": (written.value or b"").decode()}))
    ended = called(capsys, "decode", str(file), "--dialect", "debezium")
    assert json.loads(ended.stdout)["after"] == {"id": 1, "qty": 1234}
    assert ended.stderr.startswith("warning: dbo.t: a NULL in qty (1234)")
