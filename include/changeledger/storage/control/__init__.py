"""The control store: what was read, agreed, proved and published, in SQLite or PostgreSQL.

`models` has the tables, `database` the engine, migrations and errors, `store` the operations.
"""

from changeledger.storage.control.database import upgrade
from changeledger.storage.control.models import (
    AuditRow,
    ComparisonRow,
    LeaseRow,
    MaskEvidenceRow,
    Position,
    ReleaseRow,
    WindowRow,
)
from changeledger.storage.control.store import ControlStore, Verdict

__all__ = [
    "AuditRow",
    "ComparisonRow",
    "ControlStore",
    "LeaseRow",
    "MaskEvidenceRow",
    "Position",
    "ReleaseRow",
    "Verdict",
    "WindowRow",
    "upgrade",
]
