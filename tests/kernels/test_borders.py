"""Kernels that dialects share do not name a dialect."""

from __future__ import annotations

import re
from pathlib import Path

KERNELS = Path(__file__).parents[2] / "include" / "changeledger" / "kernels"
NAMES = re.compile(r"debezium|qlik|event streaming|_ct\b|\bces\b", re.IGNORECASE)


def test_what_is_shared_names_no_dialect() -> None:
    files = sorted(KERNELS.glob("*.py"))
    assert len(files) > 8, "the folder is elsewhere"
    lines = [f"{path.name}: {line.strip()}" for path in files for line in path.read_text("utf-8").splitlines()
             if NAMES.search(line)]  # fmt: skip
    assert not lines, "\n".join(lines)
