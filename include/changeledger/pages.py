"""Pages for people: templates filled in, and put in place whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape


def write(template: Path, page: Path, known: Mapping[str, Any], **filters: Callable[..., str]) -> None:
    """`template`, a file ending in `.html.j2` or `.md.j2`, with what is `known`, as `page`.

    A reader of the page never sees half of it. Raises UndefinedError for what the template does not find.
    """
    environment = Environment(
        loader=FileSystemLoader(template.parent),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    page.parent.mkdir(parents=True, exist_ok=True)
    fresh = page.with_name(f".{page.name}.new")
    fresh.write_text(environment.get_template(template.name).render(known), "utf-8")
    fresh.replace(page)
