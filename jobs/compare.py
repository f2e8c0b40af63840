"""Compare the feeds of one database, change by change, and write the report."""

from changeledger.inspection.comparing import compare_and_report
from changeledger.job import main_of_database

if __name__ == "__main__":
    main_of_database(compare_and_report)
