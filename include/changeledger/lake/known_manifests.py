"""Manifests, which never change, read once in a process, however many scans plan by them.

A scan reads all manifests of its snapshot, some milliseconds each, and a stage scans a table ten times.
"""

from __future__ import annotations

from threading import RLock
from typing import Final

from cachetools import LRUCache, cached
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestEntry, ManifestFile
from pyiceberg.table.snapshots import Snapshot

# Of so many tables a process keeps what it has read. A stage goes through those of its feed in turn, so with
# one place less than tables each look reads again; a feed of 400 tables has 1,200, and those of its records.
MOST_TABLES: Final = 4096
# Entries of manifests that are kept, some kilobytes each.
_MOST_ENTRIES: Final = 20_000


def _size(entries: tuple[ManifestEntry, ...]) -> int:
    return 1 + len(entries)


_entries: LRUCache[tuple[str, bool], tuple[ManifestEntry, ...]] = LRUCache(_MOST_ENTRIES, _size)
_manifests: LRUCache[str, tuple[ManifestFile, ...]] = LRUCache(MOST_TABLES)


def _place(manifest: ManifestFile, _: FileIO, discard_deleted: bool) -> tuple[str, bool]:
    return manifest.manifest_path, discard_deleted


@cached(_entries, key=_place, lock=RLock())
def _entries_of(manifest: ManifestFile, io: FileIO, discard_deleted: bool) -> tuple[ManifestEntry, ...]:
    return tuple(ManifestFile.fetch_manifest_entry(manifest, io, discard_deleted))


def _list(snapshot: Snapshot, _: FileIO) -> str:
    return snapshot.manifest_list


@cached(_manifests, key=_list, lock=RLock())
def _manifests_of(snapshot: Snapshot, io: FileIO) -> tuple[ManifestFile, ...]:
    read = Snapshot.manifests(snapshot, io)
    return tuple(KnownManifest(*(manifest[at] for at in range(len(manifest)))) for manifest in read)


class KnownManifest(ManifestFile):
    """Its entries are read once."""

    def fetch_manifest_entry(self, io: FileIO, discard_deleted: bool = True) -> list[ManifestEntry]:
        return list(_entries_of(self, io, discard_deleted))


class KnownSnapshot(Snapshot):
    """Its manifests are read once."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> KnownSnapshot:
        fields = {name: getattr(snapshot, name) for name in Snapshot.model_fields}
        return cls.model_construct(snapshot.model_fields_set, **fields)

    def manifests(self, io: FileIO) -> list[ManifestFile]:
        return list(_manifests_of(self, io))
