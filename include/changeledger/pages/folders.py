"""Folders of pages, on a disk or in a store: filled and removed as a whole."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from changeledger.config.object_path import ObjectPath, PagePath

# Files that are written or removed at the same time.
_AT_ONCE = 16


@contextmanager
def filled(folder: PagePath, last: str) -> Iterator[Path]:
    """Yields a folder on this disk, whose files are those of `folder` once the block has ended.

    A store gets them only if the block ends without an error: `last`, the page that links to the others,
    after them; then what an earlier attempt has left goes. On a disk the folder itself is written.
    """
    if isinstance(folder, Path):
        yield folder
        return
    with TemporaryDirectory() as scratch:
        yield Path(scratch)
        _upload(Path(scratch), folder, last)


def remove(folder: PagePath) -> None:
    """With all that is in it; it need not be there."""
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
