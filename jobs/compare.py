"""Compare the feeds of one database, change by change, and write the report."""

from changeledger.jobs.compare import job

if __name__ == "__main__":
    job()
