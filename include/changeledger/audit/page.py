"""The first page of an audit's Data Docs: the result, what failed and by which rows, then what passed.

Great Expectations' own first page draws its lists with scripts from elsewhere, which many networks refuse;
its pages of single suites are linked from here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from changeledger.audit.remedies import TOLERATING
from changeledger.audit.rules import IMAGES
from changeledger.model.window import Window
from changeledger.pages import html
from changeledger.pages.escaping import escaped_line

if TYPE_CHECKING:
    from changeledger.audit.gate import RuleResult

NAME = "audit.html"
# The file beside it with the offending rows of failed rules.
ROWS = "audit.json"
# Sections of docs/when-a-run-stops.md; "After a failed audit" for the others.
_SECTIONS = {
    "image_chain": "The image chain",
    "mask_agrees_with_images": "A mask that contradicts its images",
    "no_quarantined_records": "Quarantine",
    "quarantine_limit": "Quarantine",
    "no_unpaired_images": "Quarantine",
    "source_complete": "A gap",
    "source_from_its_beginning": "A gap",
    "source_is_read_on": "A feed that stands still",
}
_TEMPLATES = Path(__file__).parent / "templates"


class Audit(NamedTuple):
    feed: str
    window: Window
    # The branch that the run built and that was judged.
    branch: str
    results: Sequence[RuleResult]


def write(folder: Path, audit: Audit, queries: Mapping[str, Sequence[str]]) -> None:
    """Writes the page to the folder of a window's Data Docs. `queries`: those that read each subject."""
    tables: dict[str, list[RuleResult]] = {}
    for result in audit.results:
        tables.setdefault(result.table, []).append(result)
    known = {
        "audit": audit,
        "feed": audit.feed,
        "window": audit.window,
        "tables": tables,
        "queries": queries,
        "pages": _pages(folder),
        "stopping": [v for v in audit.results if v.stops],
        "violated": [v for v in audit.results if not v.success],
        "rules_in_all": len(audit.results),
        "sections": _SECTIONS,
        "tolerating": TOLERATING,
    }
    html.write(_TEMPLATES / "audit.html.j2", folder / NAME, known, shown=shown)
    html.put(folder / ROWS, json.dumps(_offending(audit.results)))


def shown(value: Any) -> str:
    """Formats a value of an offending row on one line: bytes in hexadecimal, NULL members left out."""
    if isinstance(value, dict):
        return ", ".join(f"{k}={_nested(v)}" for k, v in value.items() if v is not None and k != IMAGES)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_nested, value)) + "]"
    if isinstance(value, bytes | bytearray):
        return "0x" + value.hex().upper()
    return escaped_line(str(value))


def _nested(value: Any) -> str:
    return f"({shown(value)})" if isinstance(value, dict) else shown(value)


def _offending(results: Sequence[RuleResult]) -> list[dict[str, Any]]:
    """Returns the rows that break a rule, as text, for the page in Airflow."""
    return [
        {
            "table": result.table,
            "rule": result.rule,
            "rows": [
                {name: shown(value) for name, value in row.items() if value is not None and name != IMAGES}
                for row in result.samples
            ],
        }
        for result in results
        if not result.success and result.samples
    ]


def _pages(folder: Path) -> list[tuple[str, str]]:
    """Returns each suite with the address of its Great Expectations page, relative to the folder."""
    pages = [page.relative_to(folder) for page in sorted(folder.glob("validations/*/*/*/*.html"))]
    return [(page.parts[1], quote(page.as_posix())) for page in pages]
