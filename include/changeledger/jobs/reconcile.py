"""Order the window's changes and build current and history rows on its branch."""

from changeledger.job import main
from changeledger.stages.reconcile import run

if __name__ == "__main__":
    main(run)
