"""Check the window's branch against the rules of the audit."""

from changeledger.job import main
from changeledger.stages.audit import run

if __name__ == "__main__":
    main(run)
