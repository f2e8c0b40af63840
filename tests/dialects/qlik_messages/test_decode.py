"""Decodes Qlik's messages whose masks or names differ from those of the golden cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from changeledger.dialects.qlik_messages.dialect import QLIK_MESSAGES
from tests.dialects.golden import Case, cases
from tests.dialects.reading import decoded, with_values

Row = dict[str, Any]


def case_of(name: str) -> Case:
    (case,) = [case for case in cases("qlik_messages") if case.folder.name == name]
    return case


def rows(case: Case, values: Sequence[bytes | None]) -> dict[int, Row]:
    batches = decoded(QLIK_MESSAGES.kernel, with_values(case.messages, values), case.feed)
    return {row["source_position"]["offset"]: row for batch in batches for row in batch.to_pylist()}


@pytest.mark.parametrize(
    ("mask", "contradicts"),
    # Only `name`, ordinal 2, differs. Ordinals 4 and 5 are large objects, which masks may omit.
    [("02", False), ("04", True), ("06", True), ("00", True), ("42", True), ("", False)],
)
def test_an_update_sets_the_bits_of_what_differs(mask: str, contradicts: bool) -> None:
    case = case_of("operations")
    values = case.messages.column("value").to_pylist()
    update = next(at for at, value in enumerate(values) if value and b'"changeMask":"02"' in value)
    assert b'"operation":"UPDATE"' in values[update]
    values[update] = values[update].replace(b'"changeMask":"02"', f'"changeMask":"{mask}"'.encode())
    assert ("mask_disagrees" in (rows(case, values)[update]["flags"] or ())) == contradicts


def test_a_message_may_write_stated_columns_in_another_case() -> None:
    case = case_of("columns_stated_in_the_feed")
    values = capitals = case.messages.column("value").to_pylist()
    for name in ("region", "no", "guid", "at"):
        capitals = [
            value and value.replace(f'"{name}":'.encode(), f'"{name.upper()}":'.encode())
            for value in capitals
        ]
    assert capitals != values
    assert [
        (row["disposition"], row.get("before"), row.get("after")) for row in rows(case, capitals).values()
    ] == [(row["disposition"], row.get("before"), row.get("after")) for row in rows(case, values).values()]
