"""Caches manifests, which never change, so that a process reads each one once.

A scan reads all manifests of its snapshot, which takes some milliseconds each, and a stage scans a table
about ten times.
"""

from __future__ import annotations

from threading import RLock
from typing import Final

from cachetools import LRUCache, cached
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestEntry, ManifestFile
from pyiceberg.table.snapshots import Snapshot

# Number of tables whose metadata a process caches. A stage visits all tables of its feed in turn, so a cache
# that is one table too small never hits. A feed of 400 tables has 1,200 in the lake, and those of records.
MOST_TABLES: Final = 4096
# Number of cached manifest entries, some kilobytes each.
_MOST_ENTRIES: Final = 20_000


_entries: LRUCache[tuple[str, bool], tuple[ManifestEntry, ...]] = LRUCache(
    _MOST_ENTRIES, getsizeof=lambda entries: 1 + len(entries)
)
_manifests: LRUCache[str, tuple[ManifestFile, ...]] = LRUCache(MOST_TABLES)


@cached(_entries, lambda manifest, _, discard_deleted: (manifest.manifest_path, discard_deleted), RLock())
def _entries_of(manifest: ManifestFile, io: FileIO, discard_deleted: bool) -> tuple[ManifestEntry, ...]:
    return tuple(ManifestFile.fetch_manifest_entry(manifest, io, discard_deleted))


@cached(_manifests, lambda snapshot, _: snapshot.manifest_list, RLock())
def _manifests_of(snapshot: Snapshot, io: FileIO) -> tuple[ManifestFile, ...]:
    read = Snapshot.manifests(snapshot, io)
    return tuple(KnownManifest(*(manifest[at] for at in range(len(manifest)))) for manifest in read)


class KnownManifest(ManifestFile):
    """A manifest whose entries are read once."""

    def fetch_manifest_entry(self, io: FileIO, discard_deleted: bool = True) -> list[ManifestEntry]:
        return list(_entries_of(self, io, discard_deleted))


class KnownSnapshot(Snapshot):
    """A snapshot whose manifests are read once."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> KnownSnapshot:
        fields = {name: getattr(snapshot, name) for name in Snapshot.model_fields}
        return cls.model_construct(snapshot.model_fields_set, **fields)

    def manifests(self, io: FileIO) -> list[ManifestFile]:
        return list(_manifests_of(self, io))
