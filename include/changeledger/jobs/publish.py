"""Publish the window's tables: all of them or none."""

from changeledger.job import main
from changeledger.stages.publish import run

if __name__ == "__main__":
    main(run)
