"""Messages of two databases never become rows of one table, within a window or across windows.

One event hub can have the events of several databases, and one topic the changes of all of a connector's
`database.names`. Their tables can have the same names (Debezium's chapter on topic names; Microsoft's page on
the JSON message format, `eventsource.db`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from changeledger.cli.decode.records import Message
from changeledger.kernels.rows import together
from changeledger.model.contract import Contract
from changeledger.stages.normalization import reading
from changeledger.stages.normalization.mask_reading import resolved_alone
from tests.dialects.windows import discovered, feed

MISMATCH = "database_mismatch"


def debezium(database: str | None) -> Any:
    source = {
        "connector": "sqlserver", "ts_ms": 1786119900883, "schema": "dbo", "table": "orders",
        "commit_lsn": "0000002a:000003b0:0005", "change_lsn": "0000002a:000003b0:0003", "db": database,
    }  # fmt: skip
    fields = [{"type": "int32", "field": "id", "optional": False}, {"type": "string", "field": "of"}]
    block = {"type": "struct", "fields": [{"type": "struct", "field": "after", "fields": fields}]}
    event = {"before": None, "after": {"id": 1, "of": database}, "source": source, "op": "c"}
    return {"schema": block, "payload": event}


def ces(database: str | None) -> Any:
    columns = [("id", "int"), ("of", "nvarchar(50)")]
    source = {
        "db": database, "schema": "dbo", "tbl": "orders", "pkkey": [{"columnname": "id", "value": "1"}],
        "cols": [{"name": name, "type": kind, "index": at} for at, (name, kind) in enumerate(columns)],
    }  # fmt: skip
    return {
        "type": "com.microsoft.SQL.CES.DML.V1", "time": "2026-08-07T16:25:00.883Z", "operation": "INS",
        "logicalid": "g:0000002A000003B00005:00000000000000000001",
        "data": {"eventsource": source, "eventrow": {"old": None, "current": {"id": "1", "of": database}}},
    }  # fmt: skip


SENT = {"debezium": debezium, "ces": ces}
dialects = pytest.mark.parametrize("dialect", SENT)


def window(
    dialect: str,
    database: str,
    databases: Sequence[str | None],
    known: Mapping[str, Contract],
    stated: str | None = None,
) -> tuple[list[Any], Mapping[str, Contract]]:
    """Decodes one message of each database.

    Returns for each message the value in its row, or the reason why it has none; and the contracts.
    """
    values = [json.dumps(SENT[dialect](database)).encode() for database in databases]
    raw = [Message(f"s.{at}", 0, at, None, b'{"id": 1}', value, []) for at, value in enumerate(values)]
    of = feed(dialect, {"table": "dbo.orders"}, database=database, database_name=stated)
    discovery = discovered(raw, of, known)
    inputs = reading.inputs(discovery.records, reading.TableKnowledge(known, resolved_alone))
    outcomes: dict[int, Any] = {}
    for decoded in (*(table.decoded for table in inputs), together(discovery.others)):
        for row in decoded.collected().to_pylist():
            is_change = row["disposition"] == "change"
            outcomes[row["source_position"]["offset"]] = row["after"]["of"] if is_change else row["reason"]
    contracts = [table.contract for table in inputs if table.contract is not None]
    stored = {c.table: Contract.model_validate_json(c.model_dump_json()) for c in contracts}
    return [outcomes[at] for at in range(len(raw))], {**known, **stored}


@dialects
@pytest.mark.parametrize("name", ["sales", "Sales"])
def test_of_two_databases_the_one_of_the_feeds_name_is_read(dialect: str, name: str) -> None:
    outcomes, known = window(dialect, "sales", [name, "crm", "crm", None], {})
    assert outcomes == [name, MISMATCH, MISMATCH, None]
    assert window(dialect, "sales", ["crm"], known)[0] == [MISMATCH]


@dialects
def test_of_two_databases_of_other_names_none_is_read(dialect: str) -> None:
    assert window(dialect, "shop", ["sales", "crm", "crm"], {})[0] == [MISMATCH] * 3
    stated = window(dialect, "shop", ["sales", "C R-M", "sales"], {}, "C R-M")[0]
    assert stated == [MISMATCH, "C R-M", MISMATCH]


@dialects
def test_a_few_damaged_messages_hold_back_no_others(dialect: str) -> None:
    outcomes, known = window(dialect, "shop", ["sales"] * 10 + ["s\x05les"], {})
    assert outcomes == ["sales"] * 10 + [MISMATCH]
    assert window(dialect, "shop", ["s\x05les"] * 2 + ["sales"], known)[0] == [MISMATCH] * 2 + ["sales"]


@dialects
def test_the_only_database_has_any_name_and_no_other_is_read_later(dialect: str) -> None:
    outcomes, known = window(dialect, "shop", ["sales", None], {})
    assert outcomes == ["sales", None]
    assert window(dialect, "shop", ["crm", "crm"], known)[0] == [MISMATCH] * 2
    assert window(dialect, "crm", ["crm", "sales"], known)[0] == [MISMATCH, "sales"]


@dialects
def test_databases_whose_names_differ_in_case_only_are_two(dialect: str) -> None:
    """Databases whose names differ in case only are two databases.

    A server with a case-sensitive collation can have both (Microsoft's page "Database identifiers",
    identifier collation). The connector writes the name as `sys.databases` has it (Debezium's DBZ-1051).
    """
    outcomes, known = window(dialect, "sales", ["Sales", "sales"], {})
    assert outcomes == [MISMATCH, "sales"]
    assert window(dialect, "sales", ["Sales"], known)[0] == [MISMATCH]
    assert window(dialect, "sales", ["Sales", "SALES"], {})[0] == [MISMATCH] * 2
    assert window(dialect, "shop", ["Sales", "sales"], {})[0] == [MISMATCH] * 2
    # A name stated in another case than the messages have: the database read so far is meant, else the only
    # one.
    assert window(dialect, "shop", ["Sales", "sales"], {}, "Sales")[0] == ["Sales", MISMATCH]
    assert window(dialect, "shop", ["Sales", "sales"], known, "SALES")[0] == [MISMATCH, "sales"]
    assert window(dialect, "shop", ["Sales"], {}, "SALES")[0] == ["Sales"]


@dialects
def test_a_name_that_no_message_has_is_not_kept(dialect: str) -> None:
    """A stated name that no message has is not stored: without it, the feed reads what its messages name."""
    refused, known = window(dialect, "shop", ["shop"], {}, stated="other")
    assert refused == [MISMATCH]
    assert window(dialect, "shop", ["shop"], known)[0] == ["shop"]
