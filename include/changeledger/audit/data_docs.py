"""Great Expectations' pages of a run, with all text escaped and a shared cache of compiled templates.

Great Expectations writes most text into its pages as it is, values and names of the source among them. Each
page has its own view, which would otherwise compile all templates again.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any, Final

from great_expectations.render.components import RenderedDocumentContent
from great_expectations.render.view.view import DefaultJinjaIndexPageView, DefaultJinjaPageView
from jinja2 import BytecodeCache
from jinja2.bccache import Bucket


class _InMemory(BytecodeCache):
    """The compiled templates of this process."""

    def __init__(self) -> None:
        self._codes: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self._codes:
            bucket.bytecode_from_string(self._codes[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._codes[bucket.key] = bucket.bytecode_to_string()


_COMPILED: Final = _InMemory()
# Members of a page's content that are not text, or that Great Expectations escapes itself.
_MARKUP: Final = frozenset({"params", "styling", "tooltip"})


class PageView(DefaultJinjaPageView):
    def __init__(self, **folders: Any) -> None:
        super().__init__(**folders)
        self.env.bytecode_cache = _COMPILED

    def render(self, document: RenderedDocumentContent, *args: Any, **more: Any) -> str:
        return str(super().render(_Escaped(document), *args, **more))  # type: ignore[no-untyped-call]


class IndexView(PageView, DefaultJinjaIndexPageView):
    """The view of the index, which has another template."""


class _Escaped(RenderedDocumentContent):
    """The content of a page, with its text escaped."""

    def __init__(self, content: RenderedDocumentContent) -> None:
        self._content = content

    def to_json_dict(self) -> dict[str, Any]:
        return dict(_escaped(self._content.to_json_dict()))


def _escaped(content: Any) -> Any:
    if isinstance(content, str):
        return escape(content, quote=False)
    if isinstance(content, dict):
        return {
            _escaped(name): member if name in _MARKUP else _escaped(member)
            for name, member in content.items()
        }
    return [_escaped(member) for member in content] if isinstance(content, list | tuple) else content


def site(folder: Path) -> dict[str, Any]:
    """Returns the settings of the pages in a folder."""

    def view(of: type) -> dict[str, Any]:
        return {"view": {"class_name": of.__name__, "module_name": __name__}}

    return {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder)},
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder", **view(IndexView)},
        "site_section_builders": {
            "expectations": view(PageView),
            "validations": view(PageView),
            # Nothing is profiled.
            "profiling": "none",
        },
    }
