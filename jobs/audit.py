"""Prove the window's branch, rule by rule."""

from changeledger.jobs.audit import job

if __name__ == "__main__":
    job()
