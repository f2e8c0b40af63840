"""The types in docs/types.md are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from changeledger.model import sql_type
from changeledger.model.errors import ContractError
from changeledger.model.sql_type import SqlType

DOCUMENT = Path(__file__).parents[2] / "docs" / "types.md"


def reported() -> dict[str, str]:
    section = DOCUMENT.read_text("utf-8").split("## What the lake has", 1)[1].split("\n## ", 1)[0]
    rows = [re.match(r"\| `([^`]+)` \| `([^`]+)` \|", line) for line in section.splitlines()]
    return {row[1]: row[2] for row in rows if row is not None}


def test_the_lake_has_the_types_that_the_document_says() -> None:
    types = reported()
    assert {kind: SqlType.parse(kind).spark for kind in types} == types


def test_the_document_leaves_no_type_out() -> None:
    bases = {SqlType.parse(kind).base for kind in reported()}
    assert bases == {*sql_type._SIMPLE, "decimal", "numeric", "datetime2"}


@pytest.mark.parametrize(
    "kind", ["json", "vector(3)", "dbo.phone", "cursor", "table", "decimal(10", "", f"int{' ' * 5000}!"]
)
def test_a_type_without_a_place_in_the_lake_is_named(kind: str) -> None:
    with pytest.raises(ContractError, match=re.escape(repr(kind))):
        SqlType.parse(kind)
