"""Compare what the feeds of one database have published with their source, and write the page."""

from changeledger.jobs.verify import job

if __name__ == "__main__":
    job()
