"""Turn the window's raw records into canonical changes and dispositions."""

from changeledger.job import main
from changeledger.stages.normalize import run


def job() -> None:
    main(run)


if __name__ == "__main__":
    job()
