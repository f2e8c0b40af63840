"""Numbers in sentences."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """`1 row`, `2,000 rows`. `noun`: in the singular, with a plural in -s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
