"""Compare what the feeds of one database have published with their source, and write the page."""

from changeledger.config.database import SNAPSHOTS, Database
from changeledger.job import Choice, main_of_database
from changeledger.reports.proof import verify_and_report
from changeledger.stages.verify import waits

if __name__ == "__main__":
    main_of_database(
        verify_and_report,
        Choice("snapshot", {what: what for what in SNAPSHOTS}),
        Database.proofs,
        is_needed=waits,
    )
