"""Read the window's records from the source into the raw tables."""

from changeledger.jobs.extract import job

if __name__ == "__main__":
    job()
