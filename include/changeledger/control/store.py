"""The control store's operations, together. Each is one transaction."""

from __future__ import annotations

from changeledger.control.contracts import Contracts
from changeledger.control.failures import Failures
from changeledger.control.feed_tables import FeedTables
from changeledger.control.lease import Leases
from changeledger.control.notices import Notices
from changeledger.control.overview import Overview
from changeledger.control.reads import Reads
from changeledger.control.releases import Releases
from changeledger.control.resets import Resets
from changeledger.control.results import Results
from changeledger.control.rollbacks import Rollbacks
from changeledger.control.tables.base import ControlTable
from changeledger.control.upkeep import Upkeep
from changeledger.control.windows import Windows


class ControlStore(
    Windows,
    Reads,
    Contracts,
    Releases,
    Rollbacks,
    Resets,
    Results,
    Leases,
    Failures,
    Notices,
    FeedTables,
    Upkeep,
    Overview,
):
    """What was read, agreed, proved and published. See `base.Store` for how it is opened."""

    # Of all its tables: importing the store has imported them.
    metadata = ControlTable.metadata
