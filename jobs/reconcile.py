"""Order the window's changes and build current and history rows on its branch."""

from changeledger.jobs.reconcile import job

if __name__ == "__main__":
    job()
