"""Table metadata that pyiceberg's transactions share instead of copying, and that travels as Iceberg's JSON.

A transaction of pyiceberg makes a deep copy of the metadata at each look: some twenty for one append, each of
all schemas, snapshots and refs. Models of pyiceberg are frozen: an update makes a new one of shared parts.
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
    """Metadata whose deep copy has the same parts.

    Pickled field by field it takes ten times as long as its JSON, which a worker parses once.
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
    """The metadata of its JSON."""
    return SharedMetadata.model_validate_json(text)


@lru_cache(maxsize=MOST_TABLES)
def schema_in(text: str) -> Schema:
    """The schema of its JSON."""
    return Schema.model_validate_json(text)


def shared(metadata: TableMetadata) -> TableMetadata:
    """The metadata, to be shared if it is of the format that the lake's tables have."""
    if type(metadata) is not TableMetadataV2:
        return metadata
    fields = {name: getattr(metadata, name) for name in TableMetadataV2.model_fields}
    return SharedMetadata.model_construct(metadata.model_fields_set, **fields)
