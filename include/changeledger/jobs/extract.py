"""Read the window's records from the source into the raw tables."""

from changeledger.job import main
from changeledger.stages.extract import run

if __name__ == "__main__":
    main(run)
