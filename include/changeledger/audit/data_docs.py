"""Great Expectations' pages of a run, with a shared cache of compiled templates.

Each page has its own view, which would otherwise compile all templates again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

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


class PageView(DefaultJinjaPageView):
    def __init__(self, **folders: Any) -> None:
        super().__init__(**folders)
        self.env.bytecode_cache = _COMPILED


class IndexView(PageView, DefaultJinjaIndexPageView):
    """The view of the index, which has another template."""


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
