"""The control store, put together from its parts."""

from __future__ import annotations

from changeledger.control.audits import Audits
from changeledger.control.base import Transactions
from changeledger.control.comparisons import Comparisons
from changeledger.control.contracts import Contracts
from changeledger.control.failures import Failures, Notices
from changeledger.control.feed_tables import FeedTables
from changeledger.control.lease import Leases
from changeledger.control.overview import Overview
from changeledger.control.proofs import Proofs
from changeledger.control.releases import Releases
from changeledger.control.resets import Resets
from changeledger.control.rollbacks import Rollbacks
from changeledger.control.sources import Sources
from changeledger.control.tables.base import ControlTable
from changeledger.control.upkeep import Upkeep
from changeledger.control.windows import Windows


class ControlStore:
    """The store of what was read, agreed, proved and published. See `base.Transactions` for the arguments."""

    # Has all tables, since importing this module imports them.
    metadata = ControlTable.metadata

    def __init__(self, url: str, process: str | None = None) -> None:
        of_store = Transactions(url, process)
        self.windows = Windows(of_store)
        self.sources = Sources(of_store)
        self.contracts = Contracts(of_store)
        self.audits = Audits(of_store)
        self.releases = Releases(of_store)
        self.rollbacks = Rollbacks(of_store)
        self.resets = Resets(of_store)
        self.comparisons = Comparisons(of_store)
        self.proofs = Proofs(of_store)
        self.leases = Leases(of_store)
        self.failures = Failures(of_store)
        self.notices = Notices(of_store)
        self.feed_tables = FeedTables(of_store)
        self.upkeep = Upkeep(of_store)
        self.overview = Overview(of_store)
