"""Code behind the normalize border does not know any dialect."""

from __future__ import annotations

import re
from pathlib import Path

from changeledger.dialects.registry import DIALECTS

PACKAGE = Path(__file__).parents[2] / "include" / "changeledger"
BEHIND = ("reconcile/**/*.py", "audit/**/*.py", "stages/reconcile.py", "stages/audit.py", "stages/publish.py")
# The dialects' own names, and those of the products.
NAMES = re.compile(
    rf"\b({'|'.join([*DIALECTS, 'cdc'])})\b|debezium|qlik|event streaming|_ct\b", re.IGNORECASE
)


def test_no_dialect_is_named_behind_the_border() -> None:
    files = [path for pattern in BEHIND for path in sorted(PACKAGE.glob(pattern))]
    assert len(files) > 8, "the folders are elsewhere"
    mentions = [
        f"{path.relative_to(PACKAGE)}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if NAMES.search(line)
    ]
    assert not mentions, "\n".join(mentions)
