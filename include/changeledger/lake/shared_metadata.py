"""Table metadata that pyiceberg's transactions share instead of copying, and that is pickled as JSON.

A pyiceberg transaction deep-copies the metadata at each access, some twenty times for one append, with all
schemas, snapshots and refs. Parts can be shared because pyiceberg's models are frozen: an update makes a new
model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.snapshots import Snapshot

from changeledger.lake.known_manifests import MOST_TABLES, KnownSnapshot


class SharedMetadata(TableMetadataV2):
    """Metadata whose deep copy shares its parts.

    Pickling it field by field would take ten times as long as its JSON, which a worker parses once.
    """

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> SharedMetadata:
        return self.model_copy()

    def snapshot_by_id(self, snapshot_id: int) -> Snapshot | None:
        snapshot = super().snapshot_by_id(snapshot_id)
        return None if snapshot is None else KnownSnapshot.of(snapshot)

    def __reduce__(self) -> tuple[Callable[[str], TableMetadata], tuple[str]]:
        return metadata_in, (self.model_dump_json(),)


@lru_cache(maxsize=MOST_TABLES)
def metadata_in(text: str) -> TableMetadata:
    """Parses metadata from JSON."""
    return SharedMetadata.model_validate_json(text)


@lru_cache(maxsize=MOST_TABLES)
def schema_in(text: str) -> Schema:
    """Parses a schema from JSON."""
    return Schema.model_validate_json(text)


def shared(metadata: TableMetadata) -> TableMetadata:
    """Returns the metadata as `SharedMetadata` if it is of format version 2, which the lake's tables have."""
    if type(metadata) is not TableMetadataV2:
        return metadata
    fields = {name: getattr(metadata, name) for name in TableMetadataV2.model_fields}
    return SharedMetadata.model_construct(metadata.model_fields_set, **fields)
