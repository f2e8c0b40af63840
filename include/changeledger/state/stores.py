"""Whether an installation has stores: opening those that are files would make them."""

from __future__ import annotations

import re
from pathlib import Path

from changeledger.config.settings import Settings

# A store that is a file of this machine: the group is its path.
_EMBEDDED = re.compile(r"(?:sqlite:///|jdbc:sqlite:)(?P<file>[^?]+)")


def nothing_has_run(settings: Settings) -> bool:
    """Is all embedded, and nothing there?"""
    urls = (settings.control_url, settings.catalog.get("uri", ""))
    files = [Path(match["file"]) for url in urls if (match := _EMBEDDED.match(url))]
    return len(files) == len(urls) and not any(file.exists() for file in files)
