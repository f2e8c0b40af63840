"""Creates Python environments whose packages are links to those of this one: in a second, without network."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path


def linked_python(folder: Path, names: Iterable[str]) -> Path:
    """Creates an environment of only these distributions; returns its Python. The folder must not exist."""
    version = "python{}.{}".format(*sys.version_info)
    packages = folder / "lib" / version / "site-packages"
    packages.mkdir(parents=True)
    for name in names:
        package = distribution(name)
        parts = {file.parts[0] for file in package.files or () if file.parts[0] not in {"..", "__pycache__"}}
        for top in parts:
            place = Path(str(package.locate_file(top)))
            if top.endswith(".dist-info"):
                # A copy, because uv does not find a linked package.
                shutil.copytree(place, packages / top)
            elif not (packages / top).exists():
                (packages / top).symlink_to(place)
    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
    (folder / "bin").mkdir()
    for name in ("python", "python3"):
        (folder / "bin" / name).symlink_to(base)
    return folder / "bin" / "python3"


def link_commands(python: Path) -> None:
    """Copies this environment's commands, to be run by that Python. Existing commands stay."""
    ours = f"#!{sys.prefix}/bin/python"
    for script in (Path(sys.prefix) / "bin").iterdir():
        target = python.with_name(script.name)
        if target.exists() or not script.is_file():
            continue
        try:
            first, end, rest = script.read_text("utf-8").partition("\n")
        except UnicodeDecodeError:
            # A binary, which needs no Python.
            continue
        target.write_text((f"#!{python}" if first.startswith(ours) else first) + end + rest, "utf-8")
        target.chmod(0o755)
