"""Compact the tables of a feed, and drop what nobody can ask for any more."""

from changeledger.jobs.maintain import job

if __name__ == "__main__":
    job()
