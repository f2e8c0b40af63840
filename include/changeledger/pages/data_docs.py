"""What there is to read among the Data Docs, as HTML: newest first."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from urllib.parse import quote

from changeledger.config.object_path import ObjectPath, PagePath
from changeledger.model.window import times_of
from changeledger.pages.style import stylesheet

# The page of a comparison or a proof, and the one of an audit in its window's folder.
INDEX, AUDIT = "index.html", "audit.html"
_MOST = 50
_FEW = 3
_META = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
_NONE = "Nothing has written a page yet."


def of_all(folders: Iterable[PagePath]) -> str:
    parts = []
    for folder in folders:
        place = f"{quote(folder.name)}/"
        heading = f'<h2><a href="{place}">{escape(folder.name)}</a></h2>'
        parts.append(f"{heading}\n{_listed(_links(folder, place)[:_FEW])}")
    return _page("Data Docs", "\n".join(parts) or f"<p>{_NONE}</p>")


def of_dag(folder: PagePath) -> str:
    up = '<p><a href="../">All Data Docs</a></p>'
    return _page(f"Data Docs of {folder.name}", f"{up}\n{_listed(_links(folder, '')[:_MOST])}")


def problem(text: str, root: str, *, is_login: bool) -> str:
    """`root`: the path of all Data Docs."""
    link = '<a href="/">Log in to Airflow</a>' if is_login else f'<a href="{escape(root)}/">All Data Docs</a>'
    return _page("Data Docs", f"<p>{escape(text)}</p>\n<p>{link}</p>")


def _links(folder: PagePath, prefix: str) -> list[tuple[str, str]]:
    """Each page's address and its name."""
    if (folder / INDEX).is_file():
        return [(prefix + INDEX, "the last one")]
    return [(f"{prefix}{quote(name)}/{AUDIT}", _window(name)) for name in _audited(folder)]


def _audited(folder: PagePath) -> list[str]:
    """Ids of windows; in a store by their time, for it would be asked when each page was written."""
    if isinstance(folder, ObjectPath):
        return sorted((window.name for window in folder.iterdir()), reverse=True)
    pages = sorted(folder.glob(f"*/{AUDIT}"), key=lambda page: page.stat().st_mtime, reverse=True)
    return [page.parent.name for page in pages]


def _window(name: str) -> str:
    """A window's id as people read it."""
    times = times_of(name)
    if times is None:
        return name
    since, until = (f"{at:%Y-%m-%d %H:%M}" for at in times)
    return f"{since} to {until} UTC{', read again' if name.count('_') > 1 else ''}"


def _listed(links: list[tuple[str, str]]) -> str:
    lines = (f'<li><a href="{escape(address)}">{escape(name)}</a></li>' for address, name in links)
    return "<ul>\n{}\n</ul>".format("\n".join(lines)) if links else f"<p>{_NONE}</p>"


def _page(title: str, body: str) -> str:
    head = f"<title>{escape(title)}</title>\n<style>{stylesheet()}</style>"
    body = f"<main>\n<h1>{escape(title)}</h1>\n{body}\n</main>"
    return f'<!doctype html>\n<html lang="en"><head>{_META}{head}</head>\n<body>{body}\n</body></html>\n'
