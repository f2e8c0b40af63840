"""Renders pages from templates, and writes them atomically."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from changeledger.config.folders import private
from changeledger.config.object_path import ObjectPath, PagePath
from changeledger.config.settings import Settings
from changeledger.model.errors import ChangeledgerError, WorkedOn
from changeledger.pages.escaping import escaped
from changeledger.pages.redaction import error_text, redacted

# Marks the line of a page that says that the last run has failed.
_FAILURE = "<!-- failure -->"
_MOST = 500


@cache
def stylesheet() -> str:
    """Returns the only stylesheet. Pages in Airflow link it; files contain it."""
    return (Path(__file__).parent / "style.css").read_text("utf-8")


def write(template: Path, page: PagePath, known: Mapping[str, Any], **filters: Callable[..., Any]) -> None:
    """Renders `template`, a file ending in `.html.j2` or `.md.j2`, with the variables `known`, to `page`.

    A reader never sees half a page. Raises UndefinedError for an unknown variable.
    """
    put(page, rendered(template, known, **filters))


def rendered(template: Path, known: Mapping[str, Any], **filters: Callable[..., Any]) -> str:
    """Renders a template. The filter `value` is for values of source rows, see `Settings.redact_values`."""
    value = redacted if Settings().redact_values else lambda cell: cell
    filled = environment(template.parent, {**filters, "value": value})
    return filled.get_template(template.name).render(known)


def environment(folder: Path, filters: Mapping[str, Callable[..., Any]]) -> Environment:
    """Returns the environment of the folder's templates. It escapes HTML and refuses unknown variables."""
    jinja = Environment(
        loader=FileSystemLoader(folder),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Some pages are read on a terminal.
        finalize=lambda said: escaped(said) if type(said) is str else said,
    )
    jinja.filters.update(filters)
    # A page in a file contains the stylesheet, and fetches nothing.
    jinja.globals["style"] = stylesheet()
    return jinja


@contextmanager
def failure_noted(page: PagePath) -> Iterator[None]:
    """Notes on the page if the work that should write it fails. The page keeps its content.

    It is not a failure if another process does the work.
    """
    try:
        yield
    except WorkedOn:
        raise
    except Exception as error:
        if not (isinstance(error, ChangeledgerError) and error.reported):
            note_failure(page, error_text(error))
        raise


def note_failure(page: PagePath, error: str) -> None:
    """Notes on the page and its Markdown that the last run failed, until they are written again."""
    if not page.exists():
        title = escape(page.parent.name)
        head = f"<!doctype html>\n<title>{title}</title>\n<style>{stylesheet()}</style>\n"
        put(page, f"{head}<main>\n<h1>{title}</h1>\n{_FAILURE}\n</main>\n")
    said = f"The last run failed at {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
    reason = escaped(" ".join(error.split()))[:_MOST]
    lines = {
        ".html": f'{_FAILURE}<div class="notice bad"><b>{said}.</b> {escape(reason)}</div>',
        ".md": f"{_FAILURE} **{said}.** {escape(reason)}",
    }
    for file in (page, *(file for file in page.parent.iterdir() if file.suffix == ".md")):
        kept = file.read_text("utf-8").split("\n")
        put(file, "\n".join(lines[file.suffix] if line.startswith(_FAILURE) else line for line in kept))


def put(page: PagePath, text: str) -> None:
    """Replaces the file atomically. On a disk only this user can read a folder that it creates."""
    if isinstance(page, ObjectPath):
        page.write_bytes(text.encode())
        return
    private(page.parent)
    fresh = page.with_name(f".{page.name}.new")
    fresh.write_text(text, "utf-8")
    fresh.replace(page)
