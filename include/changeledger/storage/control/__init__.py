"""The control store: what was read, agreed, proved and published, in SQLite or PostgreSQL.

`models` has the tables, `database` the engine, migrations and errors, `base` the transactions; `windows`,
`reads`, `contracts`, `releases`, `results` and `lease` the operations, which `store` puts together.
"""

from changeledger.storage.control.database import upgrade
from changeledger.storage.control.lease import LEASE_SECONDS, kept
from changeledger.storage.control.models import (
    AuditRow,
    Built,
    ComparisonRow,
    ErasureRow,
    LeaseRow,
    MaskEvidenceRow,
    Position,
    ProofRow,
    ReleaseRow,
    SnapshotRow,
    StageRow,
    WindowRow,
)
from changeledger.storage.control.reads import SourceMark
from changeledger.storage.control.releases import IN_ORDER, Verdict, built_on_another
from changeledger.storage.control.store import ControlStore
from changeledger.storage.control.windows import furthest

__all__ = [
    "IN_ORDER",
    "LEASE_SECONDS",
    "AuditRow",
    "Built",
    "ComparisonRow",
    "ControlStore",
    "ErasureRow",
    "LeaseRow",
    "MaskEvidenceRow",
    "Position",
    "ProofRow",
    "ReleaseRow",
    "SnapshotRow",
    "SourceMark",
    "StageRow",
    "Verdict",
    "WindowRow",
    "built_on_another",
    "furthest",
    "kept",
    "upgrade",
]
