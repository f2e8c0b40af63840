"""Turn the window's raw records into canonical changes and dispositions."""

from changeledger.jobs.normalize import job

if __name__ == "__main__":
    job()
