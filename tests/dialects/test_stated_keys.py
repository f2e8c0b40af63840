"""A key that a feed states and of which the messages lack a column identifies no row by its rest."""

from __future__ import annotations

import json
from typing import Any

import pytest

from changeledger.cli.decode import reader
from changeledger.cli.decode.records import Message
from changeledger.config.feed import Feed
from tests.dialects.test_tables_alike import SENT

TABLE = "dbo.orders"


def results(dialect: str, key: list[str], columns: list[dict[str, str]]) -> list[tuple[Any, ...]]:
    """Of each message that has values of a row: what became of it, why, and its key."""
    sent = SENT[dialect](TABLE)
    raw = [
        Message(sent.topic, 0, at, None, None, value and json.dumps(value).encode(), [])
        for at, value in enumerate(sent.values)
    ]
    feed = Feed.model_validate(
        {
            "feed": "f", "dialect": dialect, "database": "shop", "connection": "none",
            "source": {"topics": ["*"]}, "tables": [{"table": TABLE, "key": key, "columns": columns}],
        }
    )  # fmt: skip
    read = [*reader.results(feed, raw, {})]
    of_rows = [row for row in read if row["disposition"] in {"change", "quarantined"}]
    return [(row["disposition"], row.get("reason"), row.get("key")) for row in of_rows]


STATED = [{"name": "id", "type": "int"}, {"name": "of", "type": "nvarchar(50)"}]


@pytest.mark.parametrize("columns", [[], STATED], ids=["as sent", "stated"])
@pytest.mark.parametrize("dialect", SENT)
def test_half_a_key_identifies_no_row(dialect: str, columns: list[dict[str, str]]) -> None:
    """SQL Server's key is of two columns; by the first alone rows would overwrite each other."""
    whole = results(dialect, ["id", "OF"], columns)
    assert whole
    assert {(what, tuple(key)) for what, _, key in whole} == {("change", ("id", "of"))}
    half = results(dialect, ["id", "off"], columns)
    assert len(half) == len(whole)
    assert {what for what, *_ in half} == {"quarantined"}
    assert {reason for _, reason, _ in half} <= {"no_key", "schema_contradicts", "incompatible_shape"}
