"""The narrow columns of a ledger, a history and current rows that the rules look at."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from changeledger.kernels.arrow import INSTANT, NAMES, RECORD, row_type
from changeledger.model.contract import Contract

# Of the ledger, as they are there.
OF_LEDGER: Final = (
    ("change_id", pa.string()), ("operation", pa.string()), ("sort_key", pa.binary()),
    ("commit_lsn", pa.binary()), ("change_lsn", pa.binary()), ("committed_at", INSTANT), ("flags", NAMES),
    ("record", RECORD), ("paired_record", RECORD), ("paired_change_id", pa.string()),
)  # fmt: skip
# Instead of its images: are they there, and the keys inside them.
HAS_BEFORE, HAS_AFTER = "has_before", "has_after"
BEFORE_KEY, AFTER_KEY = "before_key", "after_key"
IMAGES: Final = ((HAS_BEFORE, BEFORE_KEY), (HAS_AFTER, AFTER_KEY))
# By which rows are found that belong to them: of key, previous key, both records, both ids.
HASHED: Final = ("key_hash", "previous_hash", "record_hash", "paired_record_hash", "id_hash", "half_hash")

# Of intervals; NULL in current rows.
OF_INTERVALS: Final = (
    ("_valid_from", "timestamp", INSTANT), ("_valid_to", "timestamp", INSTANT),
    ("_next_sort_key", "binary", pa.binary()), ("_is_deleted", "boolean", pa.bool_()),
)  # fmt: skip


def changes_schema(contract: Contract) -> pa.Schema:
    """Of ledger rows."""
    key = row_type(contract.key)
    images = [field for has, own in IMAGES for field in ((has, pa.bool_()), (own, key))]
    return pa.schema(
        [("key", key), ("previous_key", key), *OF_LEDGER, *images, *((name, pa.int64()) for name in HASHED)]
    )


def built_schema(contract: Contract) -> pa.Schema:
    """Of intervals and current rows."""
    return pa.schema(
        [
            ("key", row_type(contract.key)), ("key_hash", pa.int64()), ("_change_id", pa.string()),
            ("_sort_key", pa.binary()), ("_run_id", pa.string()),
            *((name, kind) for name, _, kind in OF_INTERVALS),
        ]
    )  # fmt: skip
