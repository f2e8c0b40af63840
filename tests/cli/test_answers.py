"""Cells of an answer in JSON, whichever engine gives it."""

from __future__ import annotations

import json

from changeledger.cli.answers import plain
from changeledger.pages.escaping import json_line


def test_json_has_no_number_that_is_none() -> None:
    """`1/0` in DuckDB's SQL is Infinity, and readers of JSON accept neither NaN nor Infinity."""
    line = json_line({"x": plain([float("nan"), {"a": float("-inf")}]), "y": plain(float("inf"))})

    def refused(name: str) -> None:
        raise AssertionError(name)

    assert json.loads(line, parse_constant=refused) == {"x": ["NaN", {"a": "-Infinity"}], "y": "Infinity"}
    assert plain(1.5) == 1.5
