"""Properties of every batch of Qlik's messages."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from changeledger.dialects.qlik_messages import addresses, discovery, typed
from changeledger.dialects.qlik_messages.avro import schemas_in
from changeledger.dialects.qlik_messages.discovery import facts, merged
from tests.dialects.golden import Case
from tests.dialects.qlik_messages.decoding import decoded
from tests.dialects.qlik_messages.test_cases import ALL

CASES = pytest.mark.parametrize("case", [pytest.param(case, id=case.folder.name) for case in ALL])
Row = dict[str, Any]


def rows(case: Case) -> dict[Any, Row]:
    known = {case.stated.table: case.stated} if case.stated else {}
    batches = decoded(case.messages, case.feed, known, case.stated, case.schemas)
    return {row["source_position"]["offset"]: row for batch in batches for row in batch.to_pylist()}


@CASES
def test_what_is_read_by_types_is_what_is_read_alone(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    by_types = rows(case)

    monkeypatch.setattr(typed, "reader_of", lambda _: lambda *_: None)
    monkeypatch.setattr(discovery, "address", lambda value: addresses.single_address(value or b""))
    monkeypatch.setattr(addresses, "contents", lambda value: addresses.single_contents(value or b""))
    assert rows(case) == by_types


@CASES
def test_facts_of_parts_are_the_facts_of_the_whole(case: Case) -> None:
    cut = Random(case.folder.name).randrange(case.messages.num_rows + 1)
    schemas = {**schemas_in(case.messages.column("value").to_pylist()), **case.schemas}
    parts = [facts(case.messages.slice(0, cut), schemas), facts(case.messages.slice(cut), schemas)]
    assert merged(parts).equals(merged([facts(case.messages, schemas)]))
    assert merged(parts[::-1]).equals(merged([facts(case.messages, schemas)]))


@pytest.mark.parametrize(
    ("mask", "contradicts"),
    # Only `name`, ordinal 2, differs. Ordinals 4 and 5 are large objects, which masks may omit.
    [("02", False), ("04", True), ("06", True), ("00", True), ("42", True), ("", False)],
)
def test_an_update_sets_the_bits_of_what_differs(mask: str, contradicts: bool) -> None:
    (case,) = [case for case in ALL if case.folder.name == "operations"]
    values = case.messages.column("value").to_pylist()
    update = next(at for at, value in enumerate(values) if value and b'"changeMask":"02"' in value)
    assert b'"operation":"UPDATE"' in values[update]
    values[update] = values[update].replace(b'"changeMask":"02"', f'"changeMask":"{mask}"'.encode())
    at = case.messages.schema.get_field_index("value")
    changed = case.messages.set_column(at, "value", pa.array(values, pa.binary()))
    batches = decoded(changed, case.feed, {}, None, {})
    (row,) = [
        row for batch in batches for row in batch.to_pylist() if row["source_position"]["offset"] == update
    ]
    assert ("mask_disagrees" in (row["flags"] or ())) == contradicts


def test_a_message_may_write_stated_columns_in_another_case() -> None:
    (case,) = [case for case in ALL if case.folder.name == "columns_stated_in_the_feed"]
    values = case.messages.column("value").to_pylist()
    for name in ("region", "no", "guid", "at"):
        values = [
            value and value.replace(f'"{name}":'.encode(), f'"{name.upper()}":'.encode()) for value in values
        ]
    at = case.messages.schema.get_field_index("value")
    in_capitals = case.messages.set_column(at, "value", pa.array(values, pa.binary()))
    batches = decoded(in_capitals, case.feed, {}, None, {})
    read = {row["source_position"]["offset"]: row for batch in batches for row in batch.to_pylist()}
    assert [(row["disposition"], row.get("before"), row.get("after")) for row in read.values()] == [
        (row["disposition"], row.get("before"), row.get("after")) for row in rows(case).values()
    ]
