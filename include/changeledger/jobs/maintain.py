"""Compact the tables of a feed, and drop what nobody can ask for any more."""

from changeledger.job import main_of_feed
from changeledger.stages.maintain import run


def job() -> None:
    main_of_feed(run)


if __name__ == "__main__":
    job()
