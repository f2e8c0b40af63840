"""Names without blanks, of SQL Server's maximum length, on a narrow screen in Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from changeledger.pages.html import stylesheet
from tests.integration import browser
from tests.integration.browser import Browser

NAME = "x" * 128
SIZES = (
    "return [...document.querySelectorAll('code, a')].map(shown => "
    "{const at = shown.getBoundingClientRect(); return [Math.round(at.width), Math.round(at.height)]})"
)
FITS = "const column = document.querySelector('main > div'); return column.scrollWidth <= column.clientWidth"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if browser.missing():
        pytest.skip(str(browser.missing()))
    with Browser(tmp_path_factory.mktemp("browser") / "chromedriver.log") as opened:
        yield opened


@pytest.mark.parametrize("cell", ["<td><code>{}</code></td>", "<td class='mono small'><a>{}</a></td>"])
def test_blanks_of_a_value_are_shown(cell: str, page: Browser, tmp_path: Path) -> None:
    """Values that differ from the first one only in blanks must look different."""
    values = ("a b", "a  b", "a b ", " a b", "a\nb")
    rows = "".join(f"<tr>{cell.format(value)}</tr>" for value in values)
    file = tmp_path / "page.html"
    file.write_text(f"<!doctype html><style>{stylesheet()}</style><main><table>{rows}</table></main>")
    page.go(file.as_uri())
    first, *others = page.script(SIZES)
    assert first not in others


@pytest.mark.parametrize(
    "body",
    [
        f'<ul class="reasons"><li><b>{NAME} is not read.</b></li></ul>',
        f'<div class="notice bad">{NAME} lacks earlier changes</div>',
        f'<details class="notice" open><summary>{NAME}</summary></details>',
    ],
)
def test_a_name_is_broken_where_the_page_ends(body: str, page: Browser, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(
        f"<!doctype html><style>{stylesheet()}</style><main><div style='width: 20rem'>{body}</div>"
    )
    page.go(file.as_uri())
    assert page.script(FITS)
