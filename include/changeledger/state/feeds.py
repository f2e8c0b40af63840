"""The feeds of a folder, cached until a file changes, because a server asks for them at every page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from changeledger.config.feed import Feed
from changeledger.config.files import expectation_files, readable_feeds
from changeledger.model.errors import ConfigError


class KnownFeeds(NamedTuple):
    """The feeds by name, and the errors of the files that are left out."""

    feeds: Mapping[str, Feed]
    errors: Sequence[ConfigError]


def feeds_of(folder: Path) -> KnownFeeds:
    """Returns the feeds as the files are now."""
    files = (*folder.glob("*.yaml"), *expectation_files(folder))
    states = ((file, file.stat()) for file in sorted(files))
    return _read(folder, tuple((file, at.st_mtime_ns, at.st_size) for file, at in states))


@lru_cache(maxsize=4)
def _read(folder: Path, _files: tuple[tuple[Path, int, int], ...]) -> KnownFeeds:
    return KnownFeeds(*readable_feeds(folder))
