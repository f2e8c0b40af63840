"""This package in an archive for Spark's Python workers: those of a cluster have none, or an older one."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZipFile

import changeledger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def send_package(spark: SparkSession) -> None:
    """Let the session's workers import the package as this process has it, before any that they have."""
    spark.addArtifacts(str(_archive()), pyfile=True)


@cache
def _archive() -> Path:
    """It stays as long as this process: executors that start later fetch it then."""
    folder = Path(tempfile.mkdtemp(prefix="changeledger-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    package, archive = Path(changeledger.__path__[0]), folder / "changeledger.zip"
    with ZipFile(archive, "w", ZIP_DEFLATED) as zipped:
        for source in sorted(package.rglob("*.py")):
            zipped.write(source, source.relative_to(package.parent))
    return archive
