"""Writes changes of rare values (`rare_tables`) in the five dialects, as lines of `changeledger decode`.

The writers only place a value's form in a message or row. They follow the pages in `specs/`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from tests.dialects.rare_tables import DECIMAL, Change, RareTable, debezium_type, qlik_type, sized
from tests.dialects.rare_values import LARGE, Rare

Line = dict[str, Any]
_COMMITTED = "2026-08-07T16:25:00"


def debezium(changes: Sequence[Change]) -> Iterator[Line]:
    for change in changes:
        topic = f"s.dbo.{change.table.name}"
        before, after = change.image("before", "debezium"), change.image("after", "debezium")
        lsn = f"0000002a:000003b0:{change.slot.lower()}"
        source = {
            "connector": "sqlserver", "ts_ms": 1786119900000, "snapshot": "false", "db": "d",
            "schema": "dbo", "table": change.table.name, "change_lsn": lsn, "commit_lsn": lsn,
            "event_serial_no": 1,
        }  # fmt: skip
        letter = {"insert": "c", "update": "u", "delete": "d"}[change.operation]
        fields = [_field("n", "int32"), *(_debezium_field(*item) for item in change.table.columns.items())]
        images = [_field(name, "struct", fields=fields) for name in ("before", "after")]
        key_fields = [field for field in fields if field["field"] in change.table.key]
        row = after or before or {}
        key = {name: row[name] for name in change.table.key}
        yield {
            "topic": topic,
            "key": _with_schema(key_fields, key),
            "value": _with_schema(images, {"before": before, "after": after, "source": source, "op": letter}),
        }


def _with_schema(fields: list[Line], payload: Line) -> str:
    return json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": payload})


def _field(column: str, kind: str, **members: Any) -> Line:
    return {"type": kind, "optional": True, "field": column, **members}


def _debezium_field(column: str, values: Sequence[Rare]) -> Line:
    """Returns a column's field, with the source type that `column.propagate.source.type` adds."""
    kind, name = debezium_type(values[0])
    base, length, scale = sized(values[0].sql_type)
    stated = "__debezium.source.column"
    parameters = {f"{stated}.type": base.upper()}
    parameters |= {f"{stated}.length": str(length)} if length else {}
    parameters |= {f"{stated}.scale": str(scale)} if scale is not None else {}
    if name == DECIMAL:
        parameters |= {"scale": str(scale), "connect.decimal.precision": str(length)}
    named = {} if name is None else {"name": name, "version": 1}
    return _field(column, kind, parameters=parameters, **named)


def ces(changes: Sequence[Change]) -> Iterator[Line]:
    for change in changes:
        old, current = (_all_text(change.image(side, "ces")) for side in ("before", "after"))
        columns = change.table.contract().columns
        source = {
            "db": "d", "schema": "dbo", "tbl": change.table.name,
            "cols": [{"name": c.name, "type": c.type, "index": c.ordinal - 1} for c in columns],
            "pkkey": [{"columnname": n, "value": (current or old)[n]} for n in change.table.key],
        }  # fmt: skip
        rows = {"old": json.dumps(old), "current": json.dumps(current)}
        event = {
            "specversion": "1.0", "type": "com.microsoft.SQL.CES.DML.V1", "source": "/",
            "id": str(change.number),
            "logicalid": f"9c8d4ad2-bf54-4f10-a96f-038af496997f:0000002A000003B0{change.slot}:{1:020}",
            "time": f"{_COMMITTED}Z", "datacontenttype": "application/json",
            "operation": change.operation[:3].upper(), "segmentindex": 0, "finalsegment": True,
            "data": json.dumps({"eventsource": source, "eventrow": rows}),
        }  # fmt: skip
        yield {"topic": "ces", "value": json.dumps(event)}


def _all_text(row: Line | None) -> Line:
    """Returns a row as CES writes it: every value as text, and `{}` for no row."""
    cells = (row or {}).items()
    return {n: cell if cell is None or isinstance(cell, str) else json.dumps(cell) for n, cell in cells}


def qlik_messages(changes: Sequence[Change]) -> Iterator[Line]:
    for table in {change.table.name: change.table for change in changes}.values():
        yield _qlik("MD", table, {"schemaId": table.name, **_qlik_metadata(table)})
    for change in changes:
        table, lobs = change.table, {name for name, value in change.values.items() if value in LARGE}
        headers = {
            "operation": change.operation.upper(), "changeSequence": f"20260807162500{change.number:021}",
            "timestamp": f"{_COMMITTED}.000", "streamPosition": f"0000002a:000003b0:{change.slot.lower()}",
            "transactionId": "0" * 32, "changeMask": _hex(table.bits(set(change.masked) - lobs)),
            "columnMask": _hex(table.bits(table.names)), "externalSchemaId": table.name,
            "transactionEventCounter": 1, "transactionLastEvent": True,
        }  # fmt: skip
        before, after = change.image("before", "qlik"), change.image("after", "qlik")
        images = {"data": after or before, "beforeData": before if change.operation == "update" else None}
        yield _qlik("DT", table, {"schema": "dbo", "table": table.name, "headers": headers, **images})


def _qlik_metadata(table: RareTable) -> Line:
    columns = {}
    for column in table.contract().columns:
        _, length, scale = sized(column.type)
        columns[column.name] = {
            "ordinal": column.ordinal, "type": qlik_type(column.type), "length": length or 0,
            "precision": length or 0, "scale": scale or 0, "primaryKeyPosition": column.key_position,
        }  # fmt: skip
    lineage = {
        "server": "s", "task": "t", "schema": "dbo", "table": table.name, "tableVersion": 1,
        "timestamp": "2026-08-07T16:00:00.000",
    }  # fmt: skip
    return {"lineage": lineage, "tableStructure": {"tableColumns": columns}, "dataSchema": None}


def _qlik(kind: str, table: RareTable, message: Line) -> Line:
    wrapped = {"magic": "atMSG", "type": kind, "headers": None, "message": message}
    return {"topic": f"q.dbo.{table.name}", "value": json.dumps(wrapped)}


def _hex(bits: int, width: int = 0) -> str:
    return bits.to_bytes(max((bits.bit_length() + 7) // 8, width)).hex().upper()


def sqlserver_cdc(changes: Sequence[Change]) -> Iterator[Line]:
    rows = {
        "insert": ((2, "after"),), "update": ((3, "before"), (4, "after")), "delete": ((1, "before"),),
    }  # fmt: skip
    for change in changes:
        table, lsn = change.table, f"0x0000002A000003B0{change.slot}"
        bits = table.bits(change.changed if change.operation == "update" else table.names)
        for operation, side in rows[change.operation]:
            header = {
                "__$start_lsn": lsn, "__$end_lsn": None, "__$seqval": lsn, "__$operation": operation,
                "__$update_mask": f"0x{_hex(bits, (len(table.names) + 7) // 8)}",
            }  # fmt: skip
            yield {"table": f"dbo.{table.name}", "row": header | (change.image(side, "row") or {})}


def qlik_tables(changes: Sequence[Change]) -> Iterator[Line]:
    rows = {
        "insert": (("I", "after"),), "update": (("B", "before"), ("U", "after")),
        "delete": (("D", "before"),),
    }  # fmt: skip
    words = {"I": "INSERT", "B": "BEFOREIMAGE", "U": "UPDATE", "D": "DELETE"}
    for change in changes:
        # The seven columns of the header have the lowest bits.
        mask = _hex(change.table.bits(change.masked) << 7)
        for letter, side in rows[change.operation]:
            header = {
                "header__change_seq": f"2026080716250000{change.number:019}", "header__change_oper": letter,
                "header__change_mask": None if letter == "B" else mask,
                "header__stream_position": f"0000002a:000003b0:{change.slot.lower()}",
                "header__operation": words[letter], "header__transaction_id": "0" * 32,
                "header__timestamp": _COMMITTED.replace("T", " "),
            }  # fmt: skip
            yield {"table": f"dbo.{change.table.name}", "row": header | (change.image(side, "row") or {})}


WRITERS = {
    "debezium": debezium,
    "ces": ces,
    "qlik_messages": qlik_messages,
    "sqlserver_cdc": sqlserver_cdc,
    "qlik_tables": qlik_tables,
}
