"""Folders of the installation. They hold copies of the source's rows and are for its user alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_OWNER_ONLY = 0o700


def private(folder: Path) -> Path:
    """Returns the folder. Creates it and its missing parents, if necessary, for the owner only."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(_OWNER_ONLY, exist_ok=True)
    return folder


def private_home(home: Path) -> Path:
    """Returns the home as `private` does, and closes an existing one of ours to users outside its group.

    An earlier version left it open. A home that is shared on purpose is shared with a group. A folder with
    the sticky bit, such as /tmp, is left alone: everybody has files in it.
    """
    status = private(home).stat()
    mode = stat.S_IMODE(status.st_mode)
    if mode & stat.S_IRWXO and not mode & stat.S_ISVTX and status.st_uid == os.geteuid():
        home.chmod(mode & ~stat.S_IRWXO)
    return home
