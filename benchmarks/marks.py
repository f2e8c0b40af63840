"""Marks that a measured process gives to whoever measures it (`meter`). Of Python's own library alone."""

from __future__ import annotations

import sys

SIGN = "##mark "


def mark(name: str) -> None:
    """What was done since the last mark has this name."""
    sys.stdout.write(f"{SIGN}{name}\n")
    sys.stdout.flush()
    sys.stdin.readline()
