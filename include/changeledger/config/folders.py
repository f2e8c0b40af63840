"""Folders of this installation: they hold copies of the source's rows, and are for its user alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_OWNER_ONLY = 0o700


def private(folder: Path) -> Path:
    """The folder; if it is missing it is made, with those above it that are missing, for nobody else."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(_OWNER_ONLY, exist_ok=True)
    return folder


def private_home(home: Path) -> Path:
    """The same of the home; one of ours that is there is closed to users outside its group.

    An earlier version left it open; who shares it on purpose does so with a group. One in which everybody has
    files, as in /tmp, is no home of ours alone.
    """
    status = private(home).stat()
    mode = stat.S_IMODE(status.st_mode)
    if mode & stat.S_IRWXO and not mode & stat.S_ISVTX and status.st_uid == os.geteuid():
        home.chmod(mode & ~stat.S_IRWXO)
    return home
