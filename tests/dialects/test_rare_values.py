"""The extreme values of every type are published in one form, whichever dialect wrote them.

`rare_values` has the values. Each is written as a column and as a part of a key (`rare_tables`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from changeledger.cli.decode import reader, records
from tests.dialects.rare_feeds import WRITERS
from tests.dialects.rare_tables import Change, changes, qlik_type
from tests.dialects.rare_values import LARGE, Rare

_FORMS = {"qlik_messages": "qlik", "sqlserver_cdc": "row", "qlik_tables": "row"}
# Messages, by the types that they state themselves and by stated ones. Rows have no types.
DIALECTS = [
    pytest.param("debezium", False, id="debezium"),
    pytest.param("debezium", True, id="debezium-stated"),
    pytest.param("ces", False, id="ces"),
    pytest.param("qlik_messages", False, id="qlik_messages"),
    pytest.param("qlik_messages", True, id="qlik_messages-stated"),
    pytest.param("sqlserver_cdc", True, id="sqlserver_cdc"),
    pytest.param("qlik_tables", True, id="qlik_tables"),
]


def decoded(dialect: str, log: Sequence[Change], *, is_stated: bool) -> list[dict[str, Any]]:
    lines = [json.dumps(line) for line in WRITERS[dialect](log)]
    read = (records.messages if reader.is_on_kafka(dialect) else records.rows)(lines)
    tables = {f"dbo.{change.table.name}": change.table for change in log}
    contracts = {name: table.contract() for name, table in tables.items()} if is_stated else {}
    results = reader.results(reader.feed_of(dialect, read), read, contracts)
    return [result for result in results if result["disposition"] != "control"]


def images(change: Change) -> list[str]:
    """Returns the images that have the values. A key, too, if the values are the key."""
    sides = {"insert": ["after"], "update": ["before"], "delete": ["before"]}
    keyed = {"insert": ["after", "key"], "update": ["before", "after", "key"], "delete": ["before", "key"]}
    return (keyed if change.table.is_key else sides)[change.operation]


def published(dialect: str, value: Rare, *, is_stated: bool) -> Any:
    """Returns the canonical form, or Qlik's text as written if nothing says of which type it is."""
    is_text = dialect == "qlik_messages" and qlik_type(value.sql_type) in {"STRING", "WSTRING"}
    return value.written("qlik") if is_text and not is_stated else value.canonical


@pytest.mark.parametrize(("dialect", "is_stated"), DIALECTS)
def test_each_dialect_publishes_the_canonical_form(dialect: str, is_stated: bool) -> None:
    log = changes(_FORMS.get(dialect, dialect))
    results = decoded(dialect, log, is_stated=is_stated)
    # By change, image and value: the cell's repr, which shows its type and the sign of a zero.
    cells, expected = {}, {}
    for change, result in zip(log, results, strict=True):
        assert result["disposition"] == "change", result
        assert result["operation"] == change.operation
        for image in images(change):
            for name, value in change.values.items():
                if image == "before" and value in LARGE:
                    continue
                place = (change.number, result["table"], change.operation, image, str(value))
                gap = result.get(f"{image}_unknown_columns", {}).get(name)
                cells[place] = gap or repr(result[image][name])
                expected[place] = repr(published(dialect, value, is_stated=is_stated))
    assert cells == expected
    # Java counts days before 1582-10-15 in another calendar (docs/feeds.md).
    flags = {flag for result in results for flag in result.get("flags", ())}
    assert flags == ({"calendar_suspect"} if dialect == "debezium" else set())
