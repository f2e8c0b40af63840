"""Compare the feeds of one database, change by change, and write the report."""

from changeledger.config.database import Database
from changeledger.job import Choice, main_of_database
from changeledger.reports.comparison import compare_and_report

if __name__ == "__main__":
    # full: compare from the beginning, not from the last comparison.
    main_of_database(compare_and_report, Choice("full", {"false": False, "true": True}), Database.report)
