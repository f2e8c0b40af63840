"""tests/cases/README.md names every case under its dialect, and nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases"


def test_the_index_and_the_folders_agree() -> None:
    sections = re.split(r"^## ", (CASES / "README.md").read_text("utf-8"), flags=re.MULTILINE)[1:]
    listed: dict[str, set[str]] = {}
    for section in sections:
        dialect, _, body = section.partition("\n")
        last_cells = [line.rsplit("|", 2)[1] for line in body.splitlines() if line.startswith("|")][2:]
        assert all("`" in cell for cell in last_cells), f"a rule of {dialect} without a case"
        names = {name for cell in last_cells for name in re.findall(r"`([^`]+)`", cell)}
        assert not {n for n in names if n.startswith("tests/") and not (ROOT / n).exists()}
        listed[dialect] = {n for n in names if not n.startswith("tests/")}
    there = {d.name: {c.name for c in d.iterdir()} for d in CASES.iterdir() if d.is_dir()}
    assert listed == {**there, "all": set()}
