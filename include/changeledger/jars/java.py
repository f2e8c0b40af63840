"""Finds a Java that Spark supports."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Final

from changeledger.jars.fetching import SetupError

VERSIONS: Final = range(17, 22)
REMEDY: Final = (
    "Install a Java 17 runtime (Debian and Ubuntu: apt-get install openjdk-17-jre-headless) and put it"
    " on PATH, or point JAVA_HOME at it."
)


def java() -> str:
    """Returns the command of Java: that of JAVA_HOME if set, else of PATH.

    Raises SetupError if there is no Java, or it has another version.
    """
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else "java"
    origin = f"JAVA_HOME={home}" if home else "PATH"
    try:
        banner = subprocess.run([command, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    except OSError:
        raise SetupError(f"no Java found through {origin}.\n  {REMEDY}") from None
    version = java_version(banner)
    if version not in VERSIONS:
        raise SetupError(
            f"Spark 4.1 needs Java 17 to 21, but {origin} gives {version or banner}.\n  {REMEDY}"
        )
    return command


def java_version(banner: str) -> int:
    """Returns the major version from the output of `java -version`, 0 if absent. Before 9 it reads 1.8."""
    version = re.search(r'version "(?:1\.)?(\d+)', banner)
    return int(version[1]) if version else 0
