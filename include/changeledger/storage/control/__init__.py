"""The control store: what was read, agreed, proved and published, in SQLite or PostgreSQL.

`models` has the tables, `database` the engine, migrations and errors, `store` the operations, `lease` keeps
a feed while a stage works on it.
"""

from changeledger.storage.control.database import upgrade
from changeledger.storage.control.lease import LEASE_SECONDS, kept
from changeledger.storage.control.models import (
    AuditRow,
    ComparisonRow,
    LeaseRow,
    MaskEvidenceRow,
    Position,
    ProofRow,
    ReleaseRow,
    SnapshotRow,
    WindowRow,
)
from changeledger.storage.control.store import ControlStore, Verdict, furthest

__all__ = [
    "LEASE_SECONDS",
    "AuditRow",
    "ComparisonRow",
    "ControlStore",
    "LeaseRow",
    "MaskEvidenceRow",
    "Position",
    "ProofRow",
    "ReleaseRow",
    "SnapshotRow",
    "Verdict",
    "WindowRow",
    "furthest",
    "kept",
    "upgrade",
]
