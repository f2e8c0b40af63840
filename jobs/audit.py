"""Prove the window's branch, rule by rule."""

from changeledger.job import main
from changeledger.stages import audit

if __name__ == "__main__":
    main(audit.run)
