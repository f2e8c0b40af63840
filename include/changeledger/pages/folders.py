"""Fills and removes whole folders of pages, on a disk or in an object store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from changeledger.config.object_path import ObjectPath, PagePath

# How many files are written or removed at the same time.
_AT_ONCE = 16


@contextmanager
def filled(folder: PagePath, last: str) -> Iterator[Path]:
    """Yields a folder on this disk, whose files are in `folder` once the block has ended.

    On a disk this is the folder itself. An object store gets the files only if the block ends without an
    error: `last`, the page that links to the others, comes after them. Then files that an earlier attempt
    has left are removed.
    """
    if isinstance(folder, Path):
        yield folder
        return
    with TemporaryDirectory() as scratch:
        yield Path(scratch)
        _upload(Path(scratch), folder, last)


def remove(folder: PagePath) -> None:
    """Removes a folder and everything in it. The folder need not exist."""
    if isinstance(folder, Path):
        shutil.rmtree(folder, ignore_errors=True)
        return
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(ObjectPath.unlink, folder.files()))


def _upload(scratch: Path, folder: ObjectPath, last: str) -> None:
    written = [file.relative_to(scratch).as_posix() for file in scratch.rglob("*") if file.is_file()]
    outdated = set(folder.files()) - {folder / place for place in written}

    def upload(place: str) -> None:
        (folder / place).write_bytes((scratch / place).read_bytes())

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(upload, (place for place in written if place != last)))
        if last in written:
            upload(last)
        list(pool.map(ObjectPath.unlink, outdated))
