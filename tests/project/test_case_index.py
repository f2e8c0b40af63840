"""tests/cases/README.md lists every case under its dialect, and what confirms each wire fact."""

from __future__ import annotations

import re
from pathlib import Path

from changeledger.dialects.registry import DIALECTS

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases"
FACTS = "What confirms the wire facts"


def sections() -> dict[str, str]:
    parts = re.split(r"^## ", (CASES / "README.md").read_text("utf-8"), flags=re.MULTILINE)[1:]
    return {heading: body for heading, _, body in (part.partition("\n") for part in parts)}


def test_the_index_and_the_folders_agree() -> None:
    listed: dict[str, set[str]] = {}
    for dialect, body in sections().items():
        if dialect == FACTS:
            continue
        last_cells = [line.rsplit("|", 2)[1] for line in body.splitlines() if line.startswith("|")][2:]
        assert all("`" in cell for cell in last_cells), f"a rule of {dialect} without a case"
        names = {name for cell in last_cells for name in re.findall(r"`([^`]+)`", cell)}
        assert not {n for n in names if n.startswith("tests/") and not (ROOT / n).exists()}
        listed[dialect] = {n for n in names if not n.startswith("tests/")}
    folders = {d.name: {c.name for c in d.iterdir()} for d in CASES.iterdir() if d.is_dir()}
    assert listed == {**folders, "all": set()}


def test_there_are_cases_of_every_dialect() -> None:
    assert {folder.name for folder in CASES.iterdir() if folder.is_dir()} == set(DIALECTS)


def test_each_wire_fact_says_what_confirms_it() -> None:
    lines = [line for line in sections()[FACTS].splitlines() if line.startswith("|")][2:]
    facts = [line.strip("|").split("|") for line in lines]
    known = r" (page|sample|code|engine|issue|nothing)\b"
    assert [fact for fact in facts if len(fact) != 3 or not re.match(known, fact[2])] == []
    assert {dialect.strip() for _, dialect, _ in facts} == {d.name for d in CASES.iterdir() if d.is_dir()}
