"""The control store: what was read, agreed, proved and published, in SQLite or PostgreSQL.

`tables` has the tables, `database` the engine, migrations and errors, `base` the transactions. `store` puts
together the parts of the store (`windows`, `sources`, `releases`, ...), each a module of that name.
"""

from changeledger.control.audits import AuditResult
from changeledger.control.database import upgrade
from changeledger.control.lease import LEASE_SECONDS, PROCESS_SECONDS, lease_heartbeat, lease_held
from changeledger.control.processes import holder_here
from changeledger.control.releases import IN_ORDER, built_on_another
from changeledger.control.resets import AskedReset
from changeledger.control.rollbacks import Asked
from changeledger.control.sources import SourceMark
from changeledger.control.standing import ReleaseHead, standing, taken_back
from changeledger.control.store import ControlStore
from changeledger.control.tables.base import LeaseRow, Position
from changeledger.control.tables.contracts import MaskEvidenceRow
from changeledger.control.tables.feeds import ResetRow
from changeledger.control.tables.releases import AuditRow, ErasureRow, ReleaseRow
from changeledger.control.tables.results import ComparisonRow, ProofRow, SnapshotRow
from changeledger.control.tables.windows import BuiltSnapshots, StageRow, WindowRow
from changeledger.control.windows import furthest

__all__ = [
    "IN_ORDER", "LEASE_SECONDS", "PROCESS_SECONDS", "Asked", "AskedReset", "AuditResult", "AuditRow",
    "BuiltSnapshots", "ComparisonRow", "ControlStore", "ErasureRow", "LeaseRow", "MaskEvidenceRow",
    "Position", "ProofRow", "ReleaseHead", "ReleaseRow", "ResetRow", "SnapshotRow", "SourceMark", "StageRow",
    "WindowRow", "built_on_another", "furthest", "holder_here", "lease_heartbeat", "lease_held", "standing",
    "taken_back", "upgrade",
]  # fmt: skip
