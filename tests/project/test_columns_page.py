"""docs/columns.md lists every flag, and every column that published tables have besides the source's."""

from __future__ import annotations

import json
import sys

from changeledger.config.settings import PROJECT

sys.path.insert(0, str(PROJECT / "scripts"))
import columns_page

sys.path.pop(0)


def test_the_page_is_up_to_date() -> None:
    written = columns_page.PAGE.read_text("utf-8") if columns_page.PAGE.exists() else ""
    assert written == columns_page.page(), "write it again: .venv/bin/python scripts/columns_page.py"


def test_every_flag_of_the_cases_is_there() -> None:
    flags = {
        flag
        for file in (PROJECT / "tests" / "cases").rglob("expected.jsonl")
        for line in file.read_bytes().splitlines()
        for flag in json.loads(line).get("flags") or ()
    }
    # No record has this flag.
    assert flags | {"repaired"} == columns_page.FLAGS.keys()
