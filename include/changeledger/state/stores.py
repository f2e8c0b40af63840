"""Tells whether an installation has stores. Does not open them: that would create those that are files."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from changeledger.config.settings import Settings

# A store that is a file on this machine. The group is its path.
_EMBEDDED = re.compile(r"(?:sqlite:///|jdbc:sqlite:)(?P<file>[^?]+)")


def nothing_has_run(settings: Settings) -> bool:
    """Returns whether all stores are embedded and none exists."""
    urls = (settings.control_url, settings.catalog.get("uri", ""))
    files = [Path(unquote(match["file"])) for url in urls if (match := _EMBEDDED.match(url))]
    return len(files) == len(urls) and not any(file.exists() for file in files)
