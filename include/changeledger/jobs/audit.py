"""Prove the window's branch, rule by rule."""

from changeledger.job import main
from changeledger.stages.audit import run

if __name__ == "__main__":
    main(run)
