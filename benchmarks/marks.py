"""Marks that a measured process sends to its meter (`meter`). Needs only the standard library."""

from __future__ import annotations

import sys

SIGN = "##mark "


def mark(name: str) -> None:
    """Names what was done since the last mark."""
    sys.stdout.write(f"{SIGN}{name}\n")
    sys.stdout.flush()
    sys.stdin.readline()
