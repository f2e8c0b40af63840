"""Sends this package to Spark's Python workers: those of a cluster have none, or an older version."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zipfile import ZIP_DEFLATED, ZipFile

import changeledger
from changeledger.model.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Set by a server whose workers have the package already: its digest.
PACKAGE: Final = "spark.changeledger.package"


def send_package(spark: SparkSession) -> None:
    """Makes the session's workers import the package of this process in preference to any of their own.

    Raises ConfigError if the server's workers have another version, since they also serve other jobs.
    """
    of_server = spark.conf.get(PACKAGE, None)
    if of_server is None:
        spark.addArtifacts(str(_archive()), pyfile=True)
    elif of_server != digest():
        raise ConfigError(
            "the Spark Connect server was started with another version of changeledger",
            "start it again: `make up` does so with everything else",
        )


@cache
def digest() -> str:
    """Returns the digest of the package's source in this process."""
    digest = sha256()
    for source, name in _sources():
        digest.update(f"{name}\0{source.stat().st_size}\0".encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()


@cache
def _archive() -> Path:
    """Writes the archive. It stays as long as this process, since executors that start later fetch it."""
    folder = Path(tempfile.mkdtemp(prefix="changeledger-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    archive = folder / "changeledger.zip"
    with ZipFile(archive, "w", ZIP_DEFLATED) as zipped:
        for source, name in _sources():
            zipped.write(source, name)
    return archive


def _sources() -> Iterator[tuple[Path, Path]]:
    """Yields the package's files in sorted order, each with its path relative to the import folder."""
    package = Path(changeledger.__path__[0])
    for source in sorted(package.rglob("*.py")):
        yield source, source.relative_to(package.parent)
