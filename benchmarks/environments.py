"""Environments of the peers: pip creates one for each, once, in the project's cache folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

PACKAGES = {
    "duckdb": ("duckdb==2.0.0",),
    "dlt": ("dlt[duckdb]==1.31.0", "duckdb==2.0.0", "pyarrow==26.0.1"),
}


def python_of(name: str, folder: Path) -> str:
    """Returns the Python of the peer's environment. Raises CalledProcessError if pip cannot create it."""
    home = folder / name
    python, installed = home / "bin" / "python", home / "made"
    wanted = "\n".join(PACKAGES[name])
    if not installed.exists() or installed.read_text("utf-8") != wanted:
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PACKAGES[name]], check=True)
        installed.write_text(wanted, "utf-8")
    return str(python)
