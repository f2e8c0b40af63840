"""Make the window's tables visible: all of them, or none."""

from changeledger.jobs.publish import job

if __name__ == "__main__":
    job()
