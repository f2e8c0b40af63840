"""The control store's operations, together. Each is one transaction."""

from __future__ import annotations

from changeledger.storage.control.contracts import Contracts
from changeledger.storage.control.lease import Leases
from changeledger.storage.control.reads import Reads
from changeledger.storage.control.releases import Releases
from changeledger.storage.control.results import Results
from changeledger.storage.control.upkeep import Upkeep
from changeledger.storage.control.windows import Windows


class ControlStore(Windows, Reads, Contracts, Releases, Results, Leases, Upkeep):
    """What was read, agreed, proved and published. See `base.Store` for how it is opened."""
