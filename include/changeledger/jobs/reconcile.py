"""Order the window's changes and build current and history rows on its branch."""

from changeledger.job import main
from changeledger.stages.reconcile import run


def job() -> None:
    main(run)


if __name__ == "__main__":
    job()
