"""Paths of files in an object store, with the part of `pathlib.Path`'s interface that pages need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

# Prefixes of a catalog's members that say how files are reached. Other members are about the catalog itself.
_OF_STORES = ("s3.", "client.", "gcs.", "adls.", "hdfs.", "hf.", "oss.", "py-io-impl")
S3 = ("s3://", "s3a://", "s3n://")


def store_members(catalog: Mapping[str, str]) -> dict[str, str]:
    """Returns the members of the store only, without the catalog's address and secrets."""
    return {name: value for name, value in catalog.items() if name.startswith(_OF_STORES)}


class ObjectStat(NamedTuple):
    """An object's `st_mtime`, in seconds since 1970 as for files."""

    st_mtime: float


@dataclass(frozen=True)
class ObjectPath:
    """A file below `root`, such as `s3://bucket/pages`, or a folder: the files whose names begin with it.

    Errors of the store are OSError. FileNotFoundError always means that the store does not have the file.
    """

    root: str
    members: tuple[tuple[str, str], ...] = field(repr=False)
    place: str = ""

    @classmethod
    def of(cls, root: str, catalog: Mapping[str, str]) -> ObjectPath:
        """Returns the path of a root. The members of `catalog` say how to reach its store."""
        return cls(root.rstrip("/"), tuple(store_members(catalog).items()))

    def __truediv__(self, part: str) -> ObjectPath:
        return replace(self, place=f"{self.place}/{part}" if self.place else part)

    def __str__(self) -> str:
        return f"{self.root}/{self.place}" if self.place else self.root

    @property
    def name(self) -> str:
        return PurePosixPath(self.place).name

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.place).suffix

    @property
    def parent(self) -> ObjectPath:
        return replace(self, place=self.place.rpartition("/")[0])

    def exists(self) -> bool:
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        return bool(self._info().is_file)

    def is_dir(self) -> bool:
        return next(self.iterdir(), None) is not None

    def stat(self) -> ObjectStat:
        """Returns the file's status. Raises FileNotFoundError."""
        info = self._info()
        if not info.is_file:
            raise FileNotFoundError(str(self))
        return ObjectStat(info.mtime.timestamp())

    def iterdir(self) -> Iterator[ObjectPath]:
        """Yields the files and folders in this folder; nothing if it does not exist."""
        path, infos = self._infos(recursive=False)
        yield from (self / info.base_name for info in infos if info.path.rstrip("/") != path)

    def read_bytes(self) -> bytes:
        files, path = self._located()
        with files.open_input_stream(path) as stream:
            return bytes(stream.read())

    def read_text(self, encoding: str) -> str:
        return self.read_bytes().decode(encoding)

    def write_bytes(self, content: bytes) -> None:
        """Writes the file. A reader gets this content or the previous one, never a part."""
        files, path = self._located()
        with files.open_output_stream(path) as stream:
            stream.write(content)

    def files(self) -> list[ObjectPath]:
        """Returns all files below this folder."""
        path, infos = self._infos(recursive=True)
        return [self / info.path.removeprefix(f"{path}/") for info in infos if info.is_file]

    def unlink(self) -> None:
        files, path = self._located()
        files.delete_file(path)

    def _infos(self, *, recursive: bool) -> tuple[str, list[FileInfo]]:
        """Returns the folder's path in the store, and what is in it; nothing if it does not exist."""
        from pyarrow.fs import FileSelector  # noqa: PLC0415 - seconds to import

        files, path = self._located()
        return path, files.get_file_info(FileSelector(path, allow_not_found=True, recursive=recursive))

    def _info(self) -> FileInfo:
        files, path = self._located()
        return files.get_file_info(path)

    def _located(self) -> tuple[FileSystem, str]:
        scheme, _, path = str(self).partition("://")
        return _opened(self.members, scheme, path.partition("/")[0]), path


# A page: on a disk, or in an object store.
PagePath = Path | ObjectPath


@cache
def _opened(members: tuple[tuple[str, str], ...], scheme: str, bucket: str) -> FileSystem:
    from pyiceberg.io.pyarrow import PyArrowFileIO  # noqa: PLC0415 - seconds to import

    return PyArrowFileIO(dict(members)).fs_by_scheme(scheme, bucket)
