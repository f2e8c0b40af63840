"""Every page and section of the docs that the code and the docs name exists."""

from __future__ import annotations

import re
from pathlib import Path

from changeledger.config.settings import PROJECT

DOCS = PROJECT / "docs"
NAMED = re.compile(r"docs/([\w-]+\.md), ['\"]([^'\"]+)['\"]")
LINK = re.compile(r"\]\(([\w./-]*\.md)?(?:#([\w-]+))?\)")


def sections(page: Path) -> list[str]:
    return re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)


def anchors(page: Path) -> set[str]:
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in sections(page)}


def test_sections_that_the_code_names() -> None:
    references = [
        (path.name, page, section)
        for folder in ("include", "docker", "scripts")
        for path in (PROJECT / folder).rglob("*.py")
        for page, section in NAMED.findall(path.read_text("utf-8"))
    ]
    assert len(references) > 8
    missing = [
        reference
        for reference in references
        if not (DOCS / reference[1]).exists() or reference[2] not in sections(DOCS / reference[1])
    ]
    assert not missing


def test_links_between_pages() -> None:
    pages = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]
    broken = []
    for page in pages:
        for target, anchor in LINK.findall(page.read_text("utf-8")):
            to = (page.parent / target).resolve() if target else page
            if not to.exists() or (anchor and anchor not in anchors(to)):
                broken.append((page.name, target, anchor))
    assert not broken
