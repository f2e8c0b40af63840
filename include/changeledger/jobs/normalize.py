"""Turn the window's raw records into canonical changes and dispositions."""

from changeledger.job import main
from changeledger.stages.normalize import run

if __name__ == "__main__":
    main(run)
