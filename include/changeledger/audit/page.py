"""The first page of an audit's Data Docs: verdict first, then every rule, with what violates it.

Great Expectations' own first page draws its lists with scripts from elsewhere, which many networks refuse;
its pages of single suites are linked from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from changeledger.config import Window

if TYPE_CHECKING:
    from changeledger.audit.gate import Verdict

NAME = "audit.html"
_TEMPLATES = Path(__file__).parent / "templates"


def write(folder: Path, feed: str, window: Window, verdicts: Sequence[Verdict], shown: Any) -> Path:
    """The page in the folder of a window's Data Docs; `shown` gives a value's text for people."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shown"] = shown
    tables: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        tables.setdefault(verdict.table, []).append(verdict)
    pages = {table: _pages(folder, table) for table in tables}
    text = environment.get_template("audit.html.j2").render(
        feed=feed,
        window=window,
        tables=tables,
        pages=pages,
        stopping=[v for v in verdicts if v.stops],
        violated=[v for v in verdicts if not v.success],
        rules=len(verdicts),
    )
    page = folder / NAME
    page.write_text(text, "utf-8")
    return page


def _pages(folder: Path, table: str) -> list[str]:
    """Addresses of Great Expectations' pages of a suite, relative to the folder."""
    place = folder.joinpath("validations", *table.split("."))
    return [quote(page.relative_to(folder).as_posix()) for page in sorted(place.glob("*/*/*.html"))]
