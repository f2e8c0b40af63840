"""The first page of an audit's Data Docs: the result, what failed and by which rows, then what passed.

Great Expectations' own first page draws its lists with scripts from elsewhere, which many networks refuse;
its pages of single suites are linked from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from changeledger.model.window import Window
from changeledger.pages import html

if TYPE_CHECKING:
    from changeledger.audit.gate import RuleResult

NAME = "audit.html"
_TEMPLATES = Path(__file__).parent / "templates"


def write(folder: Path, feed: str, window: Window, results: Sequence[RuleResult], shown: Any) -> None:
    """The page in the folder of a window's Data Docs; `shown` gives a value's text for people."""
    tables: dict[str, list[RuleResult]] = {}
    for result in results:
        tables.setdefault(result.table, []).append(result)
    known = {
        "feed": feed,
        "window": window,
        "tables": tables,
        "pages": {table: _pages(folder, table) for table in tables},
        "stopping": [v for v in results if v.stops],
        "violated": [v for v in results if not v.success],
        "rules_in_all": len(results),
    }
    html.write(_TEMPLATES / "audit.html.j2", folder / NAME, known, shown=shown)


def _pages(folder: Path, table: str) -> list[str]:
    """Addresses of Great Expectations' pages of a suite, relative to the folder."""
    place = folder.joinpath("validations", *table.split("."))
    return [quote(page.relative_to(folder).as_posix()) for page in sorted(place.glob("*/*/*.html"))]
