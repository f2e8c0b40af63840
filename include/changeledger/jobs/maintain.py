"""Compact the tables of a feed, and remove what is no longer needed."""

from changeledger.job import main_of_feed
from changeledger.stages.maintain import run

if __name__ == "__main__":
    main_of_feed(run)
