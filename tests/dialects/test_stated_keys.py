"""If messages lack a column of the stated key, the remaining columns do not identify a row."""

from __future__ import annotations

import json
from typing import Any

import pytest

from changeledger.cli.decode import reader
from changeledger.cli.decode.records import Message
from changeledger.kernels.rows import together
from changeledger.model.contract import Column, Contract
from changeledger.stages.normalization import reading
from changeledger.stages.normalization.mask_reading import resolved_alone
from tests.dialects.test_tables_alike import SENT
from tests.dialects.windows import discovered, feed

TABLE = "dbo.orders"


def results(dialect: str, key: list[str], columns: list[dict[str, str]]) -> list[tuple[Any, ...]]:
    """Returns the disposition, reason and key of each message that has values of a row."""
    sent = SENT[dialect](TABLE)
    raw = [
        Message(sent.topic, 0, at, None, None, value and json.dumps(value).encode(), [])
        for at, value in enumerate(sent.values)
    ]
    read = reader.results(feed(dialect, {"table": TABLE, "key": key, "columns": columns}), raw, {})
    of_rows = [row for row in read if row["disposition"] in {"change", "quarantined"}]
    return [(row["disposition"], row.get("reason"), row.get("key")) for row in of_rows]


STATED = [{"name": "id", "type": "int"}, {"name": "of", "type": "nvarchar(50)"}]


@pytest.mark.parametrize("columns", [[], STATED], ids=["as sent", "stated"])
@pytest.mark.parametrize("dialect", SENT)
def test_half_a_key_identifies_no_row(dialect: str, columns: list[dict[str, str]]) -> None:
    """The key in SQL Server has two columns. By the first alone, rows would overwrite each other."""
    whole = results(dialect, ["id", "OF"], columns)
    assert whole
    assert {(what, tuple(key)) for what, _, key in whole} == {("change", ("id", "of"))}
    half = results(dialect, ["id", "off"], columns)
    assert len(half) == len(whole)
    assert {what for what, *_ in half} == {"quarantined"}
    assert {reason for _, reason, _ in half} <= {"no_key", "schema_contradicts", "incompatible_shape"}


KNOWN = Contract(
    table=TABLE,
    columns=(
        Column(name="id", type="int", ordinal=1, key_position=1),
        Column(name="of", type="nvarchar(50)", ordinal=2),
    ),
)


def without_columns(dialect: str) -> dict[str, Any]:
    """A message as it is without what says its columns."""
    values = SENT[dialect](TABLE).values
    if dialect == "debezium":
        return dict(values[0]["payload"])
    if dialect == "qlik_messages":
        return dict(values[1])
    source = values[0]["data"]["eventsource"]
    return {
        **values[0],
        "data": {**values[0]["data"], "eventsource": {n: v for n, v in source.items() if n != "cols"}},
    }


def silent(dialect: str, key: list[str], contracts: dict[str, Contract]) -> list[tuple[Any, ...]]:
    """Messages that name no columns, of a feed that states none; another feed knows `KNOWN`."""
    value = json.dumps(without_columns(dialect)).encode()
    raw = [Message(SENT[dialect](TABLE).topic, 0, 0, None, None, value, [])]
    discovery = discovered(raw, feed(dialect, {"table": TABLE, "key": key}), contracts)
    knowledge = reading.TableKnowledge(contracts, resolved_alone, borrowed=lambda _: KNOWN)
    decoded = [of.decoded for of in reading.inputs(discovery.records, knowledge)]
    rows = [row for of in (*decoded, together(discovery.others)) for row in of.collected().to_pylist()]
    return [(row["disposition"], row["reason"], row.get("key")) for row in rows]


@pytest.mark.parametrize("contracts", [{}, {TABLE: KNOWN}], ids=["borrowed", "published"])
def test_the_key_of_messages_that_say_nothing_is_the_stated_one(contracts: dict[str, Contract]) -> None:
    """The stated key replaces the key of another feed's contract, but not the key of a published table.

    Rows of a published table are merged by its key.
    """
    for key in ([], ["ID"]):
        assert silent("debezium", key, contracts) == [("change", None, {"id": 1})]
    both = {"id": 1, "of": TABLE}
    other = ("quarantined", "incompatible_shape", None) if contracts else ("change", None, both)
    assert silent("debezium", ["id", "of"], contracts) == [other]
    assert silent("debezium", ["id", "off"], contracts) == [("quarantined", "incompatible_shape", None)]


@pytest.mark.parametrize("dialect", SENT)
def test_another_key_than_the_published_one_is_refused_of_messages_that_name_no_columns(dialect: str) -> None:
    """As of those that name them: they were published by the old key, whatever `key:` said."""
    published = {TABLE: KNOWN}
    assert silent(dialect, ["ID"], published) == [("change", None, {"id": 1})]
    assert silent(dialect, ["id", "of"], published) == [("quarantined", "incompatible_shape", None)]
    (misspelt,) = silent(dialect, ["id", "off"], published)
    assert misspelt[0] == "quarantined"
    assert misspelt[1] in {"no_key", "schema_contradicts", "incompatible_shape"}
